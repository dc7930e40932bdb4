# frozen_string_literal: true

module Commonhold
  # One producer sends messages, every consumer receives all of them, in any process.
  class Channel
    private_class_method :new
    FROM = { now: 0, oldest: 1 }.freeze
    POLICY = { lossless: 0, lossy: 1, patient: 2 }.freeze
    private_constant :POLICY

    # Becomes the producer; BusyError while another one lives. With a block: closes it afterwards.
    # @return [Producer]
    def producer(&block)
      Commonhold.with(_producer, &block)
    end

    # Becomes a consumer. With a block: closes it afterwards.
    #
    # @param from [Symbol] :now (the first message sent after it has joined) or :oldest
    # @param policy [Symbol] :lossless (the producer waits for it), :lossy (the producer does not
    #   wait) or :patient (the producer waits for +patience+ seconds, then drops it)
    # @return [Consumer]
    def consumer(from: :now, policy: :lossless, patience: nil, &block)
      Commonhold.with(_consumer(Channel.number(FROM, from), Channel.number(POLICY, policy), patience), &block)
    end

    # The statistics of the channel, as a Hash.
    def stat
      JSON.parse(_describe)
    end

    # @private
    def self.number(names, name)
      names.fetch(name) { raise ArgumentError, "expected one of #{names.keys.join(', ')}, got #{name.inspect}" }
    end
  end

  # The sending side. For one thread at a time.
  class Producer
    private_class_method :new

    # Sends a message; waits for room while a lossless consumer lags, at most +timeout+ seconds.
    # Returns its number, or nil if there was no room in time.
    def send(message, timeout: nil)
      _send(message, timeout)
    end

    # Sends a message if there is room now; returns its number, or nil.
    def try_send(message)
      _send(message, 0)
    end

    # Sends messages in order, faster than one by one; waits for room, at most +timeout+ seconds in
    # total. Returns the number of messages that were sent: all, unless the time ran out.
    def send_many(messages, timeout: nil)
      messages = messages.map { |message| Map.string(message) }
      all = String.new(capacity: messages.sum(&:bytesize))
      messages.each { |message| all << message.b }
      _send_many(all, messages.map(&:bytesize), timeout)
    end

    # Reserves room for a message of +length+ bytes, which is written in parts. Waits for room, at
    # most +timeout+ seconds, after which it returns nil. With a block: sends the message afterwards,
    # unless the block raises or has cancelled it, and returns its number.
    #
    #   producer.reserve(12) { |room| room.write("header").write("body", 6) }
    #
    # @return [Reservation]
    def reserve(length, timeout: nil)
      reservation = _reserve(length, timeout)
      return reservation unless reservation && block_given?

      begin
        yield reservation
      rescue Exception # rubocop:disable Lint/RescueException
        reservation.cancel if reservation.pending?
        raise
      end
      reservation.commit if reservation.pending?
    end

    # Sends a message; returns the producer.
    def <<(message)
      _send(message, nil)
      self
    end
  end

  # Room for a message that is being written (Producer#reserve). A reservation ends when it is sent
  # or cancelled, or when its producer sends another message, reserves again or is closed. After
  # that, its methods raise InvalidError or ClosedError.
  class Reservation
    private_class_method :new

    # Whether the message can still be written, sent or cancelled.
    def pending?
      size && true
    rescue InvalidError, ClosedError
      false
    end
  end

  # The receiving side. For one thread at a time.
  class Consumer
    include Receiving

    private_class_method :new

    # Receives at most +most+ messages, as an Array. Waits at most +timeout+ seconds for the first
    # message, and does not wait for more. The Array is empty if none came in time.
    def recv_many(most = 1024, timeout: nil)
      _recv_many(most, timeout)
    end

    # Returns a copy of the next message, and does not receive it: call #advance for that. If the
    # program is killed before #advance, a consumer that joins from :oldest gets the message again.
    # Waits at most +timeout+ seconds, and then returns nil. Raises InvalidError unless the consumer
    # is lossless.
    def peek(timeout: nil)
      _peek(timeout)
    end

    # Joins again, from :now or the :oldest kept message, after it was dropped or at any other time.
    def rejoin(from = :now)
      _rejoin(Channel.number(Channel::FROM, from))
    end
  end
end
