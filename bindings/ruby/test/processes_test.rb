# frozen_string_literal: true

require_relative "helper"

class ProcessesTest < Minitest::Test
  include WithHold

  def test_a_child_uses_inherited_handles
    map = @hold.map("m")
    queue = @hold.queue("q", elements: 2, element_bytes: 8)
    channel = @hold.channel("c", ring_bytes: 4096)
    log = @hold.log("l")
    map["from"] = "parent"
    log.info("parent")
    producer = channel.producer
    element = queue.pull
    assert_child do
      closed = [-> { producer.send("x") }, -> { element.read && queue.push(0, element) }].map do |use|
        use.call
      rescue Commonhold::Error => e
        e.class
      end
      GC.start
      map["child"] = map["from"]
      mine = queue.pull.write("child")
      queue.push(0, mine)
      log.info("child")
      map.increment("n") == 1 && closed == [Commonhold::ClosedError, Commonhold::InvalidError]
    end
    assert_equal "parent", map["child"]
    assert_equal "child", queue.pull.read(0, 5)
    assert_equal %w[parent child], log.dump.map(&:text)
    assert_equal 0, producer.send("still the parent's")
    element.write("mine")
    queue.push(0, element)
  end

  # As a prefork server: the parent opens, every worker counts.
  def test_prefork
    map = @hold.map("m")
    workers = Array.new(4) { child { 500.times { map.increment("n") } } }
    workers.each { |pid| assert_predicate Process.wait2(pid).last, :success? }
    assert_equal 2000, map.increment("n", 0)
    assert_empty @hold.check
  end

  def test_a_killed_writer
    map = @hold.map("m")
    5.times do |round|
      pid = child do
        mine = @hold.map("m")
        i = 0
        while true
          mine["key #{i % 100}"] = "x" * (i % 700)
          mine.increment("n #{round}")
          i += 1
        end
      end
      await("the writer") { map.increment("n #{round}", 0) > 500 }
      Process.kill(:KILL, pid)
      Process.wait(pid)
      map["after"] = round.to_s
      assert_equal round.to_s, map["after"]
    end
    @hold.sweep
    assert_empty @hold.check
  end

  def test_elements_of_a_killed_process
    queue = @hold.queue("q", elements: 1, element_bytes: 8)
    pid = child { (@kept = queue.pull) && sleep }
    await("the pull") { queue.size.zero? }
    Process.kill(:KILL, pid)
    Process.wait(pid)
    assert_equal 8, queue.pull(timeout: 20).size
  end

  def test_a_push_waits_for_a_stopped_process_or_leaves_the_element_in_flight
    patient, hasty = queues_of_the_patient_and_the_hasty
    mine = patient.pull
    elements = Array.new(30) { hasty.pull_many(:free, 64) }.flatten
    stop_a_mover_in_the_way(patient) { hasty.push(:free, elements.last) && elements.pop }
    assert_equal "element", elements.last.write("element").read(0, 7)
    when_it_goes_on { patient.push(:free, mine) }
    refute_predicate mine, :in_flight?
  ensure
    end_the_mover
  end

  def test_a_pull_waits_for_a_stopped_process
    patient, hasty = queues_of_the_patient_and_the_hasty
    elements = []
    %i[pull try_pull].each do |pull|
      stop_a_mover_in_the_way(patient) { elements << hasty.try_pull }
      element = when_it_goes_on { patient.public_send(pull) }
      assert_predicate element, :in_flight?
      end_the_mover
    end
    stop_a_mover_in_the_way(patient) { elements << hasty.try_pull }
    assert_equal 3, (when_it_goes_on { patient.pull_many(:free, 3) }).size
  ensure
    end_the_mover
  end

  def test_an_element_waits_for_a_stopped_process_at_the_orphans
    patient, hasty = queues_of_the_patient_and_the_hasty(orphans: "free")
    mine = patient.pull
    elements = Array.new(30) { hasty.pull_many(:free, 64) }.flatten
    stop_a_mover_in_the_way(patient) { elements.last.release || elements.pop }
    assert_predicate elements.last, :in_flight?
    when_it_goes_on { mine.release }
    refute_predicate mine, :in_flight?
  ensure
    end_the_mover
  end

  def queues_of_the_patient_and_the_hasty(orphans: "lost")
    options = { elements: 4000, element_bytes: 8, queues: %w[free lost], orphans: orphans }
    [@hold, Commonhold.open(@path, lock_timeout: 0.001)].map { |hold| hold.queue("q", **options) }
  end

  # Stops a child that moves elements all the time, until it is in the middle of a move and the
  # block raises.
  def stop_a_mover_in_the_way(queue)
    @mover = child { queue.push(:free, queue.pull) while true }
    await("a stop in the middle") do
      Process.kill(:STOP, @mover)
      Process.wait(@mover, Process::WUNTRACED)
      yield
      Process.kill(:CONT, @mover)
      sleep(0.0001) && false
    rescue Commonhold::TimedOutError
      true
    end
  end

  # Runs the block in a thread, which has to wait for the mover; gives its value.
  def when_it_goes_on(&block)
    thread = Thread.new(&block)
    await("the thread") { thread.status == "sleep" }
    sleep(0.02)
    assert_predicate thread, :alive?
    Process.kill(:CONT, @mover)
    thread.value
  end

  def end_the_mover
    Process.kill(:KILL, @mover)
    Process.wait(@mover)
  end

  # Stops a child that sets a key all the time, in the middle of it.
  def stop_a_writer_in_the_way
    20_000.times { |i| @hold.map("m")["filler #{i}"] = "x" } # Many segments, each with a lock.
    hasty = Commonhold.open(@path, lock_timeout: 0.001).map("m")
    @mover = child { @hold.map("m").tap { |map| map["k"] = "x" * 3000 while true } }
    await("a stop in the middle") do
      Process.kill(:STOP, @mover)
      Process.wait(@mover, Process::WUNTRACED)
      hasty["k"] = "hasty"
      Process.kill(:CONT, @mover)
      sleep(0.0001) && false
    rescue Commonhold::TimedOutError
      true
    end
    hasty
  end

  WRITES = {
    set: ->(map, _) { map["k"] = "mine" },
    set_many: ->(map, _) { map.set_many("a" => "1", "k" => "mine", "z" => "2") },
    increment: ->(map, _) { map.increment("k") },
    update: ->(map, _) { map.update("k") { "mine" } },
    delete: ->(map, _) { map.delete("k") },
    push: ->(map, _) { map.list("k").push("mine") },
    check: ->(_, hold) { hold.check }
  }.freeze

  # Other threads continue, and the waiting one can be killed; a signal is handled.
  def test_a_write_that_waits_for_a_stopped_process_can_be_interrupted
    stop_a_writer_in_the_way
    hold = Commonhold.open(@path)
    map = hold.map("m")
    WRITES.each do |name, write|
      thread = Thread.new { write.call(map, hold) }
      await(name) { thread.status == "sleep" }
      hold.map("another")[name.to_s] = "1" unless name == :check
      assert_predicate thread, :alive?, name
      assert thread.kill.join(20), name
      assert_raises(Timeout::Error) { Timeout.timeout(0.1) { write.call(map, hold) } }
    end
    heard = false
    before = trap(:USR1) { heard = true }
    thread = Thread.new { map["k"] = "mine" }
    await("the thread") { thread.status == "sleep" }
    Process.kill(:USR1, Process.pid)
    await("the signal") { heard }
    Process.kill(:KILL, @mover)
    Process.wait(@mover)
    assert_equal "mine", thread.value && map["k"]
  ensure
    trap(:USR1, before) if before
  end

  # Pairs before the one that has to wait are set once, not again.
  def test_a_batch_that_has_to_wait_resumes_where_it_was
    hasty = stop_a_writer_in_the_way
    map = Commonhold.open(@path).map("m")
    free = ("a".."z").find { |key| (hasty[key] = "0") rescue nil } # In another segment.
    thread = Thread.new { map.set_many(free => "1", "k" => "mine", "last" => "2") }
    await("the first") { map[free] == "1" }
    await("the thread") { thread.status == "sleep" }
    map[free] = "changed since"
    Process.kill(:KILL, @mover)
    Process.wait(@mover)
    thread.join
    assert_equal ["changed since", "mine", "2"], map.get_many([free, "k", "last"])
  end

  # The garbage collector does not wait.
  def test_an_element_without_references_comes_back_when_it_can
    patient, hasty = queues_of_the_patient_and_the_hasty(orphans: "free")
    elements = Array.new(30) { hasty.pull_many(:free, 64) }.flatten
    stop_a_mover_in_the_way(patient) { elements.last.release || elements.pop }
    size = patient.size(:free)
    elements = nil
    GC.start
    Process.kill(:CONT, @mover)
    end_the_mover
    @hold.sweep # Recovers what the mover left.
    # A reference may have been on the stack.
    await("the elements") { GC.start || hasty.size(:free) > size }
  end

  def test_a_child_ends_nothing_that_it_inherited
    queue = @hold.queue("q", elements: 3, element_bytes: 8)
    channel = @hold.channel("c", ring_bytes: 4096)
    log = @hold.log("l")
    things = [queue.pull, queue.pull, channel.producer, channel.consumer, log.collect_to_file("#{@path}.lines")]
    waiting = Thread.new { things[3].recv }
    await("the consumer") { waiting.status == "sleep" }
    before = @hold.participants.size
    assert_child do
      things.clear
      queue = channel = log = nil
      GC.start
      GC.start
      @hold.participants.size == before
    end
    assert_equal before, @hold.participants.size
    things[2] << "for the parent"
    assert_equal "for the parent", waiting.value
    things[0, 2].each { |element| queue.push(0, element) }
    log.info("one")
    assert_operator things[4].finish, :>=, 1
  ensure
    File.delete("#{@path}.lines")
  end

  def test_a_channel_between_processes
    channel = @hold.channel("c", ring_bytes: 1 << 14)
    consumer = channel.consumer
    pid = child { channel.producer { |producer| 2000.times { |i| producer << "message #{i}" } } }
    assert_equal Array.new(2000) { |i| "message #{i}" }, Array.new(2000) { consumer.recv(timeout: 20) }
    assert_predicate Process.wait2(pid).last, :success?
  end

  def test_a_stopped_process_holds_up_its_lock_only_so_long
    patient = Commonhold.open(@path, lock_timeout: 0.05)
    map = patient.map("m")
    pid = child { sleep }
    Process.kill(:STOP, pid)
    map["a"] = "1" # Nobody is in the middle of a change: nothing is waited for.
    assert_equal "1", map["a"]
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end
end
