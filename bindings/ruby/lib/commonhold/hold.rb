# frozen_string_literal: true

module Commonhold
  # The file, and its contents.
  class Hold
    OPTIONS = %i[max_bytes mode delete_on_last_exit read_only lock_timeout directory].freeze
    private_class_method :new

    # @private
    def self.check_options(given, known)
      unknown = given.keys - known
      raise ArgumentError, "unknown option #{unknown.first.inspect}; expected #{known.join(', ')}" if unknown.any?
    end

    # The maps by name: +open+, +open_or_create+, +create+, +drop+, +list+.
    # @return [Maps]
    def maps
      Maps.new(self)
    end

    # The queues by name.
    # @return [Queues]
    def queues
      Queues.new(self)
    end

    # The channels by name.
    # @return [Channels]
    def channels
      Channels.new(self)
    end

    # The logs by name.
    # @return [Logs]
    def logs
      Logs.new(self)
    end

    # Opens a map, or creates it if there is none: short for Maps#open_or_create, with its options.
    # @return [Map]
    def map(name, **options)
      maps.open_or_create(name, **options)
    end

    # Opens a queue, or creates it if there is none: short for Queues#open_or_create, with its
    # parameters.
    # @return [Queue]
    def queue(name, **options)
      queues.open_or_create(name, **options)
    end

    # Opens a channel, or creates it if there is none: short for Channels#open_or_create.
    # @return [Channel]
    def channel(name, ring_bytes: 1 << 20)
      channels.open_or_create(name, ring_bytes: ring_bytes)
    end

    # Opens a log, or creates it if there is none: short for Logs#open_or_create, with its options.
    # @return [Log]
    def log(name, **options)
      logs.open_or_create(name, **options)
    end

    # The statistics of the hold, as a Hash.
    def stat
      JSON.parse(_describe(0))
    end

    # The queues, channels and logs, sorted by name, as an Array of Hashes.
    def structures
      JSON.parse(_describe(1))
    end

    # All participants, live or dead.
    def participants
      JSON.parse(_describe(2))
    end

    def inspect
      closed? ? "#<Commonhold::Hold closed>" : "#<Commonhold::Hold #{path}>"
    end
  end
end
