# frozen_string_literal: true

require "minitest/autorun"
require "commonhold"
require "securerandom"
require "timeout"

# A hold of the test's own, gone afterwards; and children.
module WithHold
  def setup
    @path = "/dev/shm/commonhold-ruby-#{Process.pid}-#{SecureRandom.hex(4)}.hold"
    @hold = Commonhold.open(@path)
  end

  def teardown
    @hold.close
    Commonhold.remove(@path, force: true)
  end

  # Runs the block in a forked child, and asserts that it gives a true value.
  def assert_child(&block)
    assert_predicate Process.wait2(child(&block)).last, :success?
  end

  def child
    fork do
      status = 1
      begin
        status = yield ? 0 : 2
      rescue Exception => e # rubocop:disable Lint/RescueException
        warn e.full_message
      end
      exit!(status)
    end
  end

  # Waits until the block gives a true value.
  def await(what = "a condition")
    Timeout.timeout(20, nil, "waited in vain for #{what}") { Thread.pass until (value = yield); value }
  end
end
