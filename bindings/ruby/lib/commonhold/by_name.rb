# frozen_string_literal: true

module Commonhold
  # The common part of Maps, Queues, Channels and Logs: the structures of one kind in a hold, by
  # name.
  class Structures
    OPEN = 0
    CREATE = 1
    OPEN_OR_CREATE = 2
    private_constant :OPEN, :CREATE, :OPEN_OR_CREATE

    # @private
    def initialize(hold)
      @hold = hold
    end

    # Drops a structure with everything in it. Other handles on it raise NotFoundError from then on.
    # BusyError while another process has a queue, channel or log open.
    #
    # @return [Boolean] false if there is none
    def drop(name)
      @hold.__send__(:"_drop_#{kind}", name)
    end

    # All structures of this kind, sorted by name.
    # @return [Array<Hash>]
    def list
      JSON.parse(@hold.__send__(:"_list_#{kind}"))
    end

    # Yields each name; without a block returns an Enumerator.
    def each(&block)
      return enum_for(:each) { size } unless block

      list.each { |found| yield found["name"] }
      self
    end

    # Whether a structure of this name exists.
    def include?(name)
      each.include?(name)
    end

    # Their number.
    def size
      list.size
    end

    def inspect
      "#<#{self.class.name} in #{@hold.path}>"
    end
  end

  # The maps of a hold by name (Hold#maps). Maps, queues, channels and logs share one space of
  # names.
  class Maps < Structures
    OPTIONS = %i[mode key_bytes value_bytes value_room max_bytes max_entries ttl encoding].freeze
    private_constant :OPTIONS

    # Opens a map, whatever its options. NotFoundError if there is none.
    #
    # @param encoding [String, Encoding] of the Strings that come back; binary
    # @return [Map]
    def open(name, encoding: nil)
      @hold.__send__(:_map, OPEN, name, { encoding: encoding })
    end

    # Opens a map, or creates it if there is none. Hold#map is the short form.
    #
    # @option options [Symbol] :mode :general, :fixed (every key has +key_bytes+, every value
    #   +value_bytes+) or :cache (pairs expire after +ttl+ seconds, and are evicted beyond
    #   +max_bytes+ or +max_entries+; nil is no limit)
    # @option options [Integer] :value_room this handle's hint for values that grow
    # @option options [String, Encoding] :encoding of the Strings that come back; binary
    # @return [Map]
    def open_or_create(name, **options)
      made(OPEN_OR_CREATE, name, options)
    end

    # Creates a map. ExistsError if there is one. The options are those of #open_or_create.
    # @return [Map]
    def create(name, **options)
      made(CREATE, name, options)
    end

    # Gives a map a stream, which Map#follow needs. The stream keeps the last +bytes+ of changes (0:
    # 64 MiB). A stream of another size begins again, and its followers get LappedError.
    #
    # @return [Boolean] false if the map has a stream of this size, or of any size and +bytes+ is 0
    def begin_stream(name, bytes = 0)
      @hold.__send__(:_begin_stream, name, bytes)
    end

    # Makes a replica's map writable for every process, because its origin will not come back. BusyError
    # while its replica lives.
    #
    # @return [Hash, nil] the "position" of the old origin's stream that the map has reached (nil if it
    #   is not known), and the "epoch" of the map from now on: replicas that have seen it refuse the old
    #   origin. nil if the map is writable already
    def promote(name)
      position, epoch = @hold.__send__(:_promote, name)
      epoch && { "position" => position, "epoch" => epoch }
    end

    private

    def kind
      "map"
    end

    def made(how, name, options)
      Hold.check_options(options, OPTIONS)
      options[:ttl_ms] = (options.delete(:ttl) * 1000).ceil if options[:ttl]
      @hold.__send__(:_map, how, name, options)
    end
  end

  # The queues of a hold by name (Hold#queues).
  class Queues < Structures
    # Opens a queue, whatever its options. NotFoundError if there is none.
    # @return [Queue]
    def open(name)
      @hold.__send__(:_queue, OPEN, name, {})
    end

    # Opens a queue, or creates it if there is none, with +elements+ of +element_bytes+ each.
    # Hold#queue is the short form.
    #
    # @param queues [Array<String, Symbol>] the named queues, 1 to 64
    # @param orphans [String] the one for the elements that a dead process had in flight; the first
    # @return [Queue]
    def open_or_create(name, elements:, element_bytes:, queues: nil, orphans: nil)
      options = { elements: elements, element_bytes: element_bytes, queues: queues, orphans: orphans }
      @hold.__send__(:_queue, OPEN_OR_CREATE, name, options)
    end

    # Creates a queue. ExistsError if there is one. The parameters are those of #open_or_create.
    # @return [Queue]
    def create(name, elements:, element_bytes:, queues: nil, orphans: nil)
      options = { elements: elements, element_bytes: element_bytes, queues: queues, orphans: orphans }
      @hold.__send__(:_queue, CREATE, name, options)
    end

    # The statistics of a queue as a Hash; works even in a read-only hold, where no queue can be
    # opened.
    def stat(name)
      JSON.parse(@hold.__send__(:_describe_queue, name))
    end

    private

    def kind
      "queue"
    end
  end

  # The channels of a hold by name (Hold#channels).
  class Channels < Structures
    # Opens a channel, whatever its ring. NotFoundError if there is none.
    # @return [Channel]
    def open(name)
      @hold.__send__(:_channel, OPEN, name, 0)
    end

    # Opens a channel, or creates it if there is none, with a ring of +ring_bytes+, a power of two.
    # Hold#channel is the short form.
    # @return [Channel]
    def open_or_create(name, ring_bytes: 1 << 20)
      @hold.__send__(:_channel, OPEN_OR_CREATE, name, ring_bytes)
    end

    # Creates a channel. ExistsError if there is one.
    # @return [Channel]
    def create(name, ring_bytes: 1 << 20)
      @hold.__send__(:_channel, CREATE, name, ring_bytes)
    end

    private

    def kind
      "channel"
    end
  end

  # The logs of a hold by name (Hold#logs).
  class Logs < Structures
    OPTIONS = %i[ring_bytes rings overwrite level direct].freeze
    private_constant :OPTIONS

    # Opens a log, whatever its options. NotFoundError if there is none.
    # @return [Log]
    def open(name)
      @hold.__send__(:_log, OPEN, name, {})
    end

    # Opens a log, or creates it if there is none. Hold#log is the short form.
    #
    # @option options [Symbol] :level the initial level, below which lines are rejected: :error,
    #   :warn, :info, :debug, :trace
    # @option options [Integer] :ring_bytes of each thread's ring; 256 KiB
    # @option options [Integer] :rings the number of threads, in all processes, that can write; 64
    # @option options [Boolean] :overwrite a full ring overwrites the oldest lines instead of
    #   dropping new ones
    # @option options [Boolean] :direct also writes to standard error while there is no collector
    # @return [Log]
    def open_or_create(name, **options)
      made(OPEN_OR_CREATE, name, options)
    end

    # Creates a log. ExistsError if there is one. The options are those of #open_or_create.
    # @return [Log]
    def create(name, **options)
      made(CREATE, name, options)
    end

    private

    def kind
      "log"
    end

    def made(how, name, options)
      Hold.check_options(options, OPTIONS)
      options[:level] = Log.level_number(options[:level]) if options[:level]
      @hold.__send__(:_log, how, name, options)
    end
  end
end
