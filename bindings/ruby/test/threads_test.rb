# frozen_string_literal: true

require_relative "helper"

class ThreadsTest < Minitest::Test
  include WithHold

  def test_threads_share_handles
    map = @hold.map("m")
    Array.new(4) do |t|
      Thread.new do
        300.times do |i|
          map["#{t} #{i}"] = "x" * i
          map.increment("n")
          map.update("s") { |old| (old.to_i + 1).to_s }
        end
      end
    end.each(&:join)
    assert_equal 1200, map.increment("n", 0)
    assert_equal "1200", map["s"]
    assert_equal 1202, map.size
  end

  def test_a_waiting_thread_lets_others_run
    channel = @hold.channel("c", ring_bytes: 1 << 14)
    consumer = channel.consumer
    queue = @hold.queue("q", elements: 1, element_bytes: 8)
    held = queue.pull
    receiver = Thread.new { consumer.recv }
    puller = Thread.new { queue.pull }
    await("both") { [receiver, puller].all? { |thread| thread.status == "sleep" } }
    channel.producer { |producer| producer << "x" }
    queue.push(0, held)
    assert_equal "x", receiver.value
    assert_equal 8, puller.value.size
  end

  def test_timeouts_and_kills_interrupt
    consumer = @hold.channel("c", ring_bytes: 1 << 14).consumer
    assert_raises(Timeout::Error) { Timeout.timeout(0.02) { consumer.recv } }
    thread = Thread.new { consumer.recv }
    await("the thread") { thread.status == "sleep" }
    thread.kill
    assert thread.join(20)
    assert_nil consumer.try_recv
  end

  def test_a_consumer_is_for_one_thread_at_a_time
    consumer = @hold.channel("c", ring_bytes: 1 << 14).consumer
    thread = Thread.new { consumer.recv }
    await("the thread") { thread.status == "sleep" }
    assert_raises(Commonhold::BusyError) { 20.times { consumer.try_recv; sleep(0.005) } }
    thread.kill.join
  end

  # The garbage collector runs at every allocation: an unguarded object is freed too early.
  def test_gc_stress
    map = @hold.map("m")
    queue = @hold.queue("q", elements: 2, element_bytes: 8)
    consumer = @hold.channel("c", ring_bytes: 4096).tap { |channel| @producer = channel.producer }.consumer
    GC.stress = true
    map["key"] = "value" * 200
    long = map["k#{'ey'}"]
    some = map.get_many([+"key", "k" * 3])
    map.set_many({ "a#{1}" => "b#{2}" })
    pairs = map.map { |key, value| [key, value.size] }
    map.list("l#{1}").push("a#{1}")
    listed = map.list("l1").to_a
    queue.push(0, queue.pull.write("x#{1}"))
    @producer.send("message #{1}")
    message = consumer.recv
    log = @hold.log("log")
    log.info("line #{1}")
    dumped = log.dump.map(&:text)
    Commonhold.open(@path) { |again| again.map("m").keys }
    GC.stress = false
    assert_equal "value" * 200, long
    assert_equal [long, nil], some
    assert_equal [["a1", 2], ["key", 1000]], pairs.sort
    assert_equal [["a1"], "message 1", ["line 1"]], [listed, message, dumped]
  ensure
    GC.stress = false
  end

  def test_gc_stress_of_batches
    map = @hold.map("m")
    map["key"] = "value"
    queue = @hold.queue("q", elements: 4, element_bytes: 8, queues: %w[free full])
    consumer = @hold.channel("c", ring_bytes: 4096).tap { |channel| @producer = channel.producer }.consumer
    log = @hold.log("log").tap { |lines| lines.info("line") }
    GC.stress = true
    @producer.send_many(["message #{1}", "x" * 100, ""])
    seen = [consumer.peek, consumer.advance, *consumer.recv_many]
    @producer.reserve(9) { |room| room.write("re#{1}").write("s" * 6, 3) }
    queue.push_many(:full, queue.pull_many(:free, 3).each { |element| element.write("x#{1}") })
    element = queue.push_pull(:free, queue.pull(:full), "full")
    frozen = @hold.with_frozen { map.pairs.to_a + ["froz#{'en'}"] }
    raised = begin
      @hold.with_frozen { raise "in the #{'block'}" }
    rescue RuntimeError => e
      e.message
    end
    map.update_uid(map.uid("key"), "key") { |old| "#{old}!" }
    lines = log.reader.finish.map(&:text)
    GC.stress = false
    assert_equal ["message 1", true, "x" * 100, "", "re1ssssss"], seen << consumer.recv
    assert_equal ["x1", [%w[key value], "frozen"]], [element.read(0, 2), frozen]
    assert_equal ["in the block", "value!", ["line"]], [raised, map["key"], lines]
  ensure
    GC.stress = false
  end

  def test_gc_stress_of_replicas_and_journals
    map = @hold.map("m")
    map["key"] = "value"
    other = Commonhold.open("#{@path}.other.hold")
    GC.auto_compact = GC.stress = true
    origin = @hold.origin("m", secret: "s" * 30, uids: [Process.uid, 1 << 20])
    at = origin.listen("unix:#{@path}.socket#{1}")
    replica = other.replica("copy", at, secret: "s" * 30, name: "near")
    ready = replica.wait_ready(timeout: 60)
    map.wait_for_replica("near", timeout: 60)
    replica.close
    origin.close
    @hold.journal("m", "#{@path}.journal") { map.sync(timeout: 60) }
    GC.auto_compact = GC.stress = false
    Commonhold::Journal.rebuild(other, "again", "#{@path}.journal")
    assert ready
    assert_equal %w[value value], (%w[copy again].map { |name| other.maps.open(name)["key"] })
  ensure
    GC.auto_compact = GC.stress = false
    other&.close
    Commonhold.remove("#{@path}.other.hold", force: true)
    File.delete("#{@path}.journal")
  end if GC.respond_to?(:auto_compact=) # Ruby 3

  # Short Strings are where the collector can move them.
  def test_names_that_the_collector_moves
    names = Array.new(64) { |i| "queue #{i}" }
    GC.auto_compact = GC.stress = true
    queue = @hold.queue("q", elements: 1, element_bytes: 8, queues: names, orphans: "queue 63")
    GC.auto_compact = GC.stress = false
    assert_equal names, queue.stat["queues"].map { |one| one["name"] }
    assert_equal "queue 63", queue.stat["orphans"]
  ensure
    GC.auto_compact = GC.stress = false
  end if GC.respond_to?(:auto_compact=) # Ruby 3

  # Ruby raises by longjmp: through the library's frames it would leak their memory and locks.
  def test_what_is_raised_while_lines_are_made_leaves_nothing_behind
    log = @hold.log("l", ring_bytes: 1 << 20)
    900.times { |i| log.info("#{i} " * 250) }
    count = log.dump.size
    assert_operator count, :>, 500
    before = nil
    Commonhold::Line.class_eval { define_method(:initialize) { |*| raise "no line" } }
    150.times do |i|
      assert_raises(RuntimeError) { log.dump }
      before = resident if i == 20
    end
    assert_operator resident - before, :<, 40 << 20
  ensure
    Commonhold::Line.class_eval { remove_method(:initialize) }
    assert_equal count, log.dump.size
  end

  def resident
    GC.start
    File.read("/proc/self/statm").split[1].to_i * 4096
  end

  # A conversion may change the String of another argument.
  def test_a_conversion_may_change_the_other_arguments
    map = @hold.map("m")
    key = +"key" * 2000
    evil = Object.new
    evil.define_singleton_method(:to_str) { key.replace("k").tap { GC.start } && "value" }
    map["k"] = "value"
    assert map.compare_exchange(key, evil, "new")
    assert_equal "new", map["k"]
  end

  def test_a_string_outlives_everything
    value = Commonhold.open(@path) { |again| again.map("m").tap { |map| map["a"] = "x" * 5000 }["a"] }
    GC.start
    assert_equal "x" * 5000, value
  end
end
