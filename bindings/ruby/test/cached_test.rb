# frozen_string_literal: true

require_relative "helper"

class CachedTest < Minitest::Test
  include WithHold

  def test_a_result_is_computed_once_and_forgotten
    cached = @hold.cached("results", max_entries: 100)
    assert_equal "for a", (cached.fetch("a") { |key| "for #{key}" })
    assert_equal "for a", (cached.fetch("a") { flunk })
    assert_equal "new", (cached.refresh("a") { "new" })
    assert_equal "new", (cached.fetch("a") { flunk })
    assert cached.forget("a")
    refute cached.forget("a")
    assert_equal "again", (cached.fetch("a") { "again" })
    assert_equal 100, cached.map.options[:max_entries]
    assert_raises(TypeError) { cached.fetch("b") { 7 } }
    assert_equal "good", (cached.fetch("b") { "good" })
    assert_equal 0, @hold.map("results.computing").size
    brief = @hold.cached("brief", ttl: 0.001)
    brief.fetch("a") { "1" }
    await("the end of the result") { (brief.fetch("a") { "2" }) == "2" }
  end

  # All processes want the result before any of them has it.
  def test_one_of_many_processes_computes
    counts = @hold.map("counts")
    workers = Array.new(4) do
      child do
        Array.new(3) do
          Thread.new do
            counts.increment("begun")
            @hold.cached("results").fetch("a") do
              Thread.pass until counts.increment("begun", 0) == 12
              counts.increment("computed").to_s
            end
          end
        end.map(&:value).uniq == ["1"]
      end
    end
    workers.each { |pid| assert_predicate Process.wait2(pid).last, :success? }
    assert_equal 1, counts.increment("computed", 0)
  end

  def test_another_caller_takes_the_place_of_a_dead_process
    counts = @hold.map("counts")
    pid = child { @hold.cached("results").fetch("a") { counts.increment("computing") && sleep } }
    await("the child") { counts.key?("computing") }
    thread = Thread.new { @hold.cached("results").fetch("a") { "mine" } }
    await("the thread") { thread.status == "sleep" }
    sleep(0.1)
    assert_predicate thread, :alive?
    Process.kill(:KILL, pid)
    Process.wait(pid)
    assert_equal "mine", thread.value
  end

  def test_another_caller_takes_the_place_of_one_that_raises
    cached = @hold.cached("results")
    go = ::Queue.new
    failing = Thread.new { assert_raises(ZeroDivisionError) { cached.fetch("a") { go.pop && 1 / 0 } } }
    await("the thread") { failing.status == "sleep" && go.num_waiting == 1 }
    waiting = Thread.new { cached.fetch("a") { "mine" } }
    await("the other") { waiting.status == "sleep" }
    go << true
    assert_equal "mine", waiting.value
    failing.join
  end

  def test_a_caller_does_not_wait_for_ever
    go = ::Queue.new
    slow = Thread.new { @hold.cached("results").fetch("a") { go.pop } }
    await("the thread") { go.num_waiting == 1 }
    assert_equal "mine", (@hold.cached("results", wait: 0.01).fetch("a") { "mine" })
    go << "slow"
    assert_equal "slow", slow.value
  end
end
