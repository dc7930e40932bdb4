# frozen_string_literal: true

module Commonhold
  # Serves all maps of a hold to replicas (Hold#hold_origin), at the same addresses: those that exist,
  # and those that are created while it runs. Queues, channels and logs are not served, and neither are
  # maps whose names begin with a dot. A HoldReplica follows all maps, a Replica one of them.
  #
  # Its threads are not Ruby's, so they call no block: #maps shows what has happened. In a forked
  # child, everything but #close raises InvalidError, and #close has no effect.
  class HoldOrigin
    private_class_method :new

    # The maps that it serves: "name", "replicas", and "error", the reason why a map cannot be served at
    # the moment.
    # @return [Array<Hash>]
    def maps
      JSON.parse(_maps)
    end

    # Ends it. First sends the waiting changes to every replica, for +timeout+ seconds at most. The
    # garbage collector ends it, too, without sending them.
    def close(timeout: 0)
      Commonhold.in_a_thread { _end(timeout) }
    end
  end

  # Keeps the maps of a hold equal to those of an origin's hold (Hold#hold_replica): those that exist,
  # and those that are created later. A map that is dropped at the origin stays, and is reported as
  # dropped. A map that this hold has as an ordinary map is skipped, and is followed if the ordinary map
  # goes away.
  #
  # Its threads are not Ruby's, so they call no block: a program waits (#wait_ready), or asks for the
  # #status. In a forked child, everything but #close raises InvalidError, and #close has no effect.
  class HoldReplica
    private_class_method :new

    # Its status: "connected", "listed", "last_error", and "maps" with the "name", the "state"
    # ("followed", "skipped" or "dropped"), the "reason" and the "replica" of each.
    # @return [Hash]
    def status
      JSON.parse(_status)
    end

    # Waits at most +timeout+ seconds (nil: no limit) until the origin has named its maps, and every map
    # that can be followed has the origin's state. Returns whether that is so.
    def wait_ready(timeout: nil)
      _wait_ready(timeout)
    end

    # Ends it. The maps stay, and another replica may resume them.
    def close
      Commonhold.in_a_thread { _end }
    end
  end
end
