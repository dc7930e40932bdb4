# frozen_string_literal: true

module Commonhold
  # Receiving one object after another, with or without waiting.
  module Receiving
    include Enumerable

    # The next one; waits for it, at most +timeout+ seconds, after which it returns nil.
    def recv(timeout: nil)
      _recv(timeout)
    end

    # The next one, or nil if there is none now.
    def try_recv
      _recv(0)
    end

    # Yields each one without end; without a block returns an Enumerator.
    def each
      return enum_for(:each) unless block_given?

      yield recv while true
    end
  end
end
