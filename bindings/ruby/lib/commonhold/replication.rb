# frozen_string_literal: true

module Commonhold
  # Runs the block in a thread, so that a signal, Timeout or Thread#kill ends the wait for it. The
  # thread continues then.
  # @private
  def self.in_a_thread
    Thread.new do
      Thread.current.report_on_exception = false
      yield
    end.value
  end

  # Serves one map to replicas (Hold#origin): at addresses, and over attached sockets. Writers of
  # the map do not wait for replicas, except when they clear the map.
  #
  # Its threads are not Ruby's, so they call no block: #replicas shows what has happened. In a forked
  # child, everything but #close raises InvalidError, and #close has no effect.
  class Origin
    COMPRESSION = { auto: 0, always: 1, never: 2 }.freeze
    private_constant :COMPRESSION
    private_class_method :new

    # The options with a ch_compression.
    # @private
    def self.with_compression(options)
      name = options.fetch(:compression, :auto)
      number = COMPRESSION[name]
      raise ArgumentError, "expected compression: :auto, :always or :never, got #{name.inspect}" unless number

      options.merge(compression: number)
    end

    # The connected replicas.
    # @return [Array<Hash>]
    def replicas
      JSON.parse(_replicas)
    end

    # Ends it. First sends the waiting changes to every replica, for +timeout+ seconds at most. The
    # garbage collector ends it, too, without sending them.
    def close(timeout: 0)
      Commonhold.in_a_thread { _end(timeout) }
    end
  end

  # Keeps a map of a hold equal to an origin's map (Hold#replica). Every process that has the hold
  # open reads it like any map; writing to it raises ReadOnlyError. It restores a lost connection to
  # an address, and resumes where it was.
  #
  # Its thread is not Ruby's, so it calls no block. A program waits (#wait_ready, #wait_for), or asks
  # for the #status, which has the reason why the last connection ended. To receive the changes, give
  # the replica's map a stream (Maps#begin_stream), and follow the map. In a forked child, everything
  # but #close raises InvalidError, and #close has no effect.
  class Replica
    private_class_method :new

    # @private
    def self.complete(options)
      Origin.with_compression({ first_pause: 0.05, longest_pause: 5 }.merge(options))
    end

    # Compares a replica's map with its origin, pair by pair; needs memory for a copy of the map.
    # TimedOutError after +timeout+ seconds.
    #
    # @param hold [Hold] the replica's
    # @param origin [String] an address
    # @return [Hash] a report: "equal", "pairs", "different" (a number), "differing" (the keys, 100 at
    #   most) and others
    def self.verify(hold, map, origin, secret: nil, timeout: 30)
      equal, text = Commonhold.in_a_thread { hold.__send__(:_verify, map, origin, secret, timeout) }
      report = JSON.parse(text)
      { "equal" => equal, **report, "differing" => report["differing"].map { |key| key.pack("C*") } }
    end

    # Its status: "connected", "ready", "position", "lag_ms", "last_error" and others.
    # @return [Hash]
    def status
      JSON.parse(_status)
    end

    # Waits at most +timeout+ seconds (nil: no limit) until the map has the origin's state. Returns
    # true if it does; false on a timeout, or if the replica ended because its socket was closed.
    def wait_ready(timeout: nil)
      _wait_ready(timeout)
    end

    # Waits until the map has reached a position of the origin's stream (Follower#position there).
    # Returns the same as #wait_ready.
    def wait_for(position, timeout: nil)
      _wait_for(position, timeout)
    end

    # Ends it. The map stays, and another replica may resume it.
    def close
      Commonhold.in_a_thread { _end }
    end
  end
end
