# frozen_string_literal: true

module Commonhold
  # Elements of one size that move by reference between named queues. Each is in exactly one of
  # them, or in flight in exactly one process. The elements that a dead process had in flight move
  # to the orphan queue, and so does an Element without references. Methods take the name or
  # the number of a queue.
  class Queue
    private_class_method :new

    # Pulls the Element at the front; waits for one, at most +timeout+ seconds, after which it
    # returns nil.
    def pull(queue = 0, timeout: nil)
      _pull(queue, timeout)
    end

    # Pulls the Element at the front, or returns nil if the queue is empty now.
    def try_pull(queue = 0)
      _pull(queue, 0)
    end

    # Pulls at most +most+ elements (64 in one call), as an Array. Waits for the first one, at most
    # +timeout+ seconds (nil: without limit), and does not wait for more.
    def pull_many(queue, most, timeout: 0)
      _pull_many(queue, most, timeout)
    end

    # The statistics of the queue, as a Hash.
    def stat
      JSON.parse(_describe)
    end
  end

  # A descriptor that is readable when there are elements (Queue#notifier). Wait until it is readable
  # (<tt>IO.select([notifier])</tt>), #clear it, and pull until the queue is empty. In a forked child
  # it never signals: create a new one there.
  class Notifier
    private_class_method :new

    # @return [IO]
    def to_io
      descriptor = fileno # ClosedError
      @to_io ||= IO.for_fd(descriptor, autoclose: false)
    end
  end

  # An element in flight.
  class Element
    private_class_method :new
    alias to_s read
    alias bytesize size
  end
end
