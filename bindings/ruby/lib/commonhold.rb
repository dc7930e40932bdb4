# frozen_string_literal: true

require "json"
require_relative "commonhold/version"
require_relative "commonhold/commonhold_ext"

# A hold is a memory-mapped file that many processes share, in any supported language and without a
# server.
#
#   shop = Commonhold.open("shop")
#   stock = shop.map("stock")
#   stock["apple"] = "12 crates"
#   stock["apple"]                 # => "12 crates"
#
# Keys, values and messages are bytes: Strings of any encoding go in, binary ones come out, unless
# the map was opened with +encoding:+.
#
# Any object may be used from any thread, and by a child after fork, which becomes a participant of
# its own with its first write. Producers, consumers, elements in flight, collectors, origins,
# replicas and journals stay the parent's. Every error includes Commonhold::Error, and is also of the
# class that Ruby itself would raise: ArgumentError, KeyError, IOError for closed handles.
module Commonhold
  class << self
    # Opens a hold, or creates it. A bare name lives in memory, under $COMMONHOLD_DIR or else
    # /dev/shm; anything with a slash, or ending in ".hold", is a path. With a block: closes it
    # afterwards, and returns the block's result.
    # @param create [nil, Boolean] true: it must not exist; false: it must exist
    # @option options [Integer] :max_bytes creation: the most bytes the file may have; 64 GiB
    # @option options [Integer] :mode creation: permission bits; 0600
    # @option options [Boolean] :delete_on_last_exit creation: delete the file when its last user
    #   ends, even by a crash; a forked child counts as a user
    # @option options [Boolean] :read_only takes no slot, writes nothing; goes with <tt>create:
    #   false</tt>
    # @option options [Numeric, nil] :lock_timeout seconds to wait for a lock whose holder lives;
    #   nil: without limit
    # @option options [String] :directory the directory of bare names
    # @return [Hold]
    def open(name, create: nil, **options, &block)
      create = false if create.nil? && options[:read_only]
      how = { nil => 2, true => 1, false => 0 }.fetch(create) { raise ArgumentError, "create: is true, false or nil" }
      name = name.to_path if name.respond_to?(:to_path)
      Hold.check_options(options, Hold::OPTIONS)
      with(Hold._open(how, name, options), &block)
    end

    # Gives the block what was opened, and closes it afterwards.
    # @private
    def with(opened)
      return opened unless block_given?

      begin
        yield opened
      ensure
        opened.close
      end
    end

    # Deletes the file of a hold. BusyError if a process has it open, unless +force+: then these
    # processes continue with the memory that they have.
    def remove(name, force: false)
      _remove(name.respond_to?(:to_path) ? name.to_path : name, force)
    end

    # The path that a name stands for.
    # @return [String]
    def resolve(name, directory = nil)
      _resolve(name.respond_to?(:to_path) ? name.to_path : name, directory).force_encoding("filesystem")
    end

    # The holds in a directory (by default where bare names live), as an Array of Hashes.
    def list(directory = nil)
      JSON.parse(_list(directory))
    end
  end
end

require_relative "commonhold/receiving"
require_relative "commonhold/hold"
require_relative "commonhold/by_name"
require_relative "commonhold/map"
require_relative "commonhold/list"
require_relative "commonhold/queue"
require_relative "commonhold/channel"
require_relative "commonhold/log"
require_relative "commonhold/replication"
require_relative "commonhold/holds"
require_relative "commonhold/journal"
require_relative "commonhold/cached"
