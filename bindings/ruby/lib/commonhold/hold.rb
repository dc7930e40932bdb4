# frozen_string_literal: true

module Commonhold
  # The file, and what is in it.
  class Hold
    OPTIONS = %i[max_bytes mode delete_on_last_exit read_only lock_timeout directory].freeze
    MAP_OPTIONS = %i[mode key_bytes value_bytes value_room max_bytes max_entries ttl encoding create].freeze
    private_constant :MAP_OPTIONS
    private_class_method :new

    # @private
    def self.check_options(given, known)
      unknown = given.keys - known
      raise ArgumentError, "unknown option #{unknown.first.inspect}; expected #{known.join(', ')}" if unknown.any?
    end

    # Opens the map of this name, or makes it.
    #
    # @option options [Symbol] :mode :general, :fixed (every key has +key_bytes+, every value +value_bytes+) or :cache (pairs
    #   expire after +ttl+ seconds, and are evicted beyond +max_bytes+ or +max_entries+)
    # @option options [Integer] :value_room this handle's hint for values that grow
    # @option options [String, Encoding] :encoding of the Strings that come back; binary
    # @option options [Boolean] :create false: it must be there, whatever its options
    # @return [Map]
    def map(name, **options)
      Hold.check_options(options, MAP_OPTIONS)
      options[:ttl_ms] = (options.delete(:ttl) * 1000).ceil if options[:ttl]
      options[:create] = true unless options.key?(:create)
      _map(Map, name, options)
    end

    # The map, if it is there; NotFoundError otherwise.
    def open_map(name, encoding: nil)
      _map(Map, name, { encoding: encoding })
    end

    # Opens the queue of this name, or makes it with so many elements of so many bytes. Without a number of elements it
    # must be there.
    #
    # @param queues [Array<String, Symbol>] the named queues, 1 to 64
    # @param orphans [String] the one for what a dead process had in flight; the first
    # @return [Queue]
    def queue(name, elements: nil, element_bytes: nil, queues: nil, orphans: nil)
      return _queue(name, nil) unless elements

      raise ArgumentError, "element_bytes: is missing" unless element_bytes

      _queue(name, { elements: elements, element_bytes: element_bytes, queues: queues, orphans: orphans }.compact)
    end

    # Opens the channel of this name, or makes it with a ring of so many bytes: a power of two. Without them it must be
    # there.
    # @return [Channel]
    def channel(name, ring_bytes: nil)
      _channel(name, ring_bytes)
    end

    # Opens the log of this name, or makes it.
    #
    # @param level [Symbol] lines less important are not accepted, at first: :error, :warn, :info, :debug, :trace
    # @option options [Integer] :ring_bytes of each thread's ring; 256 KiB
    # @option options [Integer] :rings how many threads of all processes can write; 64
    # @option options [Boolean] :overwrite a full ring overwrites the oldest lines instead of dropping new ones
    # @option options [Boolean] :direct writes to standard error, too, as long as nobody collects
    # @return [Log]
    def log(name, level: nil, create: true, **options)
      Hold.check_options(options, %i[ring_bytes rings overwrite direct])
      return _log(name, nil) unless create

      options[:level] = Log.level_number(level) if level
      _log(name, options)
    end

    # Keeps a map's changes from now on, so that Map#follow shows them; gives whether it did not before.
    def begin_stream(map, bytes = 64 << 20)
      _begin_stream(map, bytes)
    end

    # Figures of the hold, as a Hash.
    def stat
      JSON.parse(_describe(0))
    end

    # The maps, by name, as an Array of Hashes.
    def maps
      JSON.parse(_describe(1))
    end

    # Queues, channels and logs, by name.
    def others
      JSON.parse(_describe(2))
    end

    # Who takes part.
    def participants
      JSON.parse(_describe(3))
    end

    def inspect
      closed? ? "#<Commonhold::Hold closed>" : "#<Commonhold::Hold #{path}>"
    end
  end
end
