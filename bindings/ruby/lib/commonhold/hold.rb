# frozen_string_literal: true

module Commonhold
  # A hold: the file and its contents.
  class Hold
    OPTIONS = %i[max_bytes mode delete_on_last_exit read_only lock_timeout directory].freeze
    ORIGIN_OPTIONS = %i[allow_unauthenticated stream_bytes threads uids explicit most_replicas compression].freeze
    REPLICA_OPTIONS = %i[first_pause longest_pause also origin_map stream_bytes adopt compression].freeze
    JOURNAL_OPTIONS = %i[compact_bytes stream_bytes replace keep archive segment_time].freeze
    CACHED_OPTIONS = %i[max_bytes max_entries].freeze
    private_constant :ORIGIN_OPTIONS, :REPLICA_OPTIONS, :JOURNAL_OPTIONS, :CACHED_OPTIONS
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

    # Keeps results in a cache of this name, which is created if there is none; see Cached.
    #
    # @param ttl [Numeric, nil] how many seconds results are kept; nil: as long as there is room
    # @param wait [Numeric] how many seconds a caller waits for another caller's result before it
    #   computes the result itself
    # @option options [Integer] :max_bytes the most bytes of results
    # @option options [Integer] :max_entries the most results
    # @return [Cached]
    def cached(name = "cached", ttl: nil, wait: 30, **options)
      Hold.check_options(options, CACHED_OPTIONS)
      Cached.new(self, name, ttl: ttl, wait: wait, **options)
    end

    # Serves a map to replicas. Creates the map's stream if it has none. With a block: closes the
    # origin afterwards, and returns the block's result.
    #
    # @param secret [String] a secret; each side must prove that it knows it
    # @option options [Boolean] :allow_unauthenticated permits listening without a secret where
    #   other machines can connect; every client that connects can then read the map
    # @option options [Integer] :stream_bytes the bytes of changes that the map keeps for replicas
    #   that were away; a stream of another size begins again (Maps#begin_stream)
    # @option options [Integer] :threads the number of threads that serve replicas; 1 by default
    # @option options [Array<Integer>] :uids users whose processes may connect over unix sockets
    # @option options [Boolean] :explicit changes are sent when Origin#transmit is called, not as they
    #   happen
    # @option options [Integer] :most_replicas the maximum number of connections; 8192 by default
    # @option options [Symbol] :compression whether the pairs of a full sync are compressed, if the
    #   replica allows it too: :auto (over TCP to another machine), :always or :never
    # @return [Origin]
    def origin(map, secret: nil, **options, &block)
      Hold.check_options(options, ORIGIN_OPTIONS)
      options = Origin.with_compression(options)
      Commonhold.with(_origin(map, secret, options.delete(:uids), options), &block)
    end

    # Replicates an origin's map to the map of this name, which is created if it does not exist.
    # Returns at once: Replica#wait_ready waits. MismatchError if the map exists and is not a
    # replica's; BusyError if it has a replica already. With a block: closes the replica afterwards.
    #
    # @param origin [String, IO, Integer] an address (<tt>unix:PATH</tt>, <tt>tcp:HOST:PORT</tt>), or
    #   a connected stream socket, of which the replica uses a copy
    # @param secret [String] the origin's
    # @param name [String] for Map#wait_for_replica at the origin, different from those of the
    #   origin's other replicas
    # @option options [Numeric] :first_pause seconds after the first failed connection (0.05); doubles
    #   each time, up to +longest_pause+ (5)
    # @option options [Array<String>] :also further addresses of the map, such as those of relays: if
    #   the connection is lost, the replica tries all addresses in turn, and continues at its position
    #   where it can
    # @option options [String] :origin_map the map's name at the origin, if it is another
    # @option options [Integer] :stream_bytes for a relay: the map gets a stream of this size with the
    #   origin's positions, unless it has a stream
    # @option options [Boolean] :adopt accepts, for one connection, an origin of another map, or one of
    #   an earlier epoch than the replica has seen; its map then replaces the replica's
    # @option options [Symbol] :compression as for #origin
    # @param prefix [String] only the pairs whose keys begin with these 1 to 255 bytes: the origin
    #   sends no others. The map keeps to the prefix, cannot be served to other replicas, and cannot be
    #   promoted
    # @return [Replica]
    def replica(map, origin, secret: nil, name: nil, prefix: nil, **options, &block)
      Hold.check_options(options, REPLICA_OPTIONS)
      Commonhold.with(_replica(map, origin, secret, name, Replica.complete(options.merge(prefix: prefix))), &block)
    end

    # Serves all maps of the hold to replicas, also those that are created later. Gives each map a
    # stream if it has none. With a block: closes the origin afterwards, and returns the block's result.
    #
    # @param maps [Array<String>] patterns of the names of the maps to serve: <tt>*</tt> stands for any
    #   characters, <tt>?</tt> for one; without patterns, all maps
    # @param secret [String] as for #origin
    # @param options those of #origin for each map, except +explicit+
    # @return [HoldOrigin]
    def hold_origin(maps = [], secret: nil, **options, &block)
      Hold.check_options(options, ORIGIN_OPTIONS)
      options = Origin.with_compression(options)
      Commonhold.with(_hold_origin(maps, secret, options.delete(:uids), options), &block)
    end

    # Replicates all maps of an origin's hold to maps of the same names, also those that are created
    # later. Returns at once: HoldReplica#wait_ready waits. With a block: closes the replica afterwards.
    #
    # @param origin [String] an address
    # @param maps [Array<String>] patterns of the names of the maps to follow, as for #hold_origin
    # @param secret [String] the origin's
    # @param name [String] as for #replica
    # @param options those of #replica for each map, except +origin_map+ and +prefix+
    # @return [HoldReplica]
    def hold_replica(origin, maps = [], secret: nil, name: nil, **options, &block)
      Hold.check_options(options, REPLICA_OPTIONS - [:origin_map])
      Commonhold.with(_hold_replica(origin, maps, secret, name, Replica.complete(options)), &block)
    end

    # Keeps a journal of a map in a file, which is resumed if it exists. MismatchError if the map is
    # a cache or a replica, or if the file has changes that the map lacks (Journal.rebuild);
    # BusyError if the map, or the file, has a journal already. With a block: closes the journal
    # afterwards.
    #
    # @param sync [Symbol, Numeric] when changes are made durable: :always, :never, or the maximum
    #   number of seconds after a write
    # @option options [Integer] :compact_bytes a smaller file is not compacted when it has doubled;
    #   16 MiB by default
    # @option options [Integer] :stream_bytes the bytes of changes that the map keeps for a journal
    #   that lags
    # @option options [Boolean] :replace discards the file, whatever is in it; with +keep+, it becomes
    #   a segment
    # @option options [Numeric] :keep for how many seconds earlier states of the map can be restored: a
    #   file that the next one replaces stays as a segment, until no state within this time needs it
    # @option options [String] :archive the directory of the segments, on the file system of the file;
    #   the file's path and +.d+ by default
    # @option options [Numeric] :segment_time a new file begins at the latest after so many seconds,
    #   unless nothing changes; an hour by default
    # @return [Journal]
    def journal(map, file, sync: :always, **options, &block)
      Hold.check_options(options, JOURNAL_OPTIONS)
      Commonhold.with(_journal(map, Journal.path(file), Journal.complete(options, sync)), &block)
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
