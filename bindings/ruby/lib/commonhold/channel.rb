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
      Channel.with(_producer, &block)
    end

    # Becomes a consumer. With a block: closes it afterwards.
    #
    # @param from [Symbol] :now (the first message sent after it has joined) or :oldest
    # @param policy [Symbol] :lossless (the producer waits for it), :lossy (the producer does not
    #   wait) or :patient (the producer waits for +patience+ seconds, then drops it)
    # @return [Consumer]
    def consumer(from: :now, policy: :lossless, patience: nil, &block)
      Channel.with(_consumer(Channel.number(FROM, from), Channel.number(POLICY, policy), patience), &block)
    end

    # The statistics of the channel, as a Hash.
    def stat
      JSON.parse(_describe)
    end

    # @private
    def self.number(names, name)
      names.fetch(name) { raise ArgumentError, "expected one of #{names.keys.join(', ')}, got #{name.inspect}" }
    end

    # @private
    def self.with(opened)
      return opened unless block_given?

      begin
        yield opened
      ensure
        opened.close
      end
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

    # Sends a message; returns the producer.
    def <<(message)
      _send(message, nil)
      self
    end
  end

  # The receiving side. For one thread at a time.
  class Consumer
    include Receiving

    private_class_method :new

    # Joins again, from :now or the :oldest kept message, after it was dropped or at any other time.
    def rejoin(from = :now)
      _rejoin(Channel.number(Channel::FROM, from))
    end
  end
end
