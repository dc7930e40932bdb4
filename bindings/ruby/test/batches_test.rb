# frozen_string_literal: true

require_relative "helper"

# Many messages and elements in one call, and messages that are written or read in parts.
class BatchesTest < Minitest::Test
  include WithHold

  def channel
    @channel ||= @hold.channel("c", ring_bytes: 4096)
  end

  def test_many_messages
    producer = channel.producer
    consumer = channel.consumer
    messages = ["one", "", "grün", "\0\xff".b]
    assert_equal 4, producer.send_many(messages)
    assert_equal 0, producer.send_many([])
    assert_equal messages.first(3).map(&:b), consumer.recv_many(3)
    assert_equal 2, consumer.last_sequence
    assert_equal ["\0\xff".b], consumer.recv_many
    assert_equal [], consumer.recv_many(10, timeout: 0)
    assert_equal [], consumer.recv_many(10, timeout: 0.01)
    assert_raises(TypeError) { producer.send_many(["a", 1]) }
    assert_raises(ArgumentError) { consumer.recv_many(10, timeout: -1) }
    assert_raises(Commonhold::TooLargeError) { producer.send_many(["small", "x" * 5000]) }
    assert_equal ["small"], consumer.recv_many
  end

  def test_many_messages_wait_for_room_and_report_how_many_were_sent
    producer = channel.producer
    consumer = channel.consumer
    messages = Array.new(100) { |i| "#{i} ".ljust(200, "x") }
    sent = producer.send_many(messages, timeout: 0.05)
    assert_includes 1..99, sent
    assert_equal 0, producer.send_many(messages, timeout: 0)
    sender = Thread.new { producer.send_many(messages.drop(sent)) }
    received = []
    received.concat(consumer.recv_many(7)) while received.size < 100
    assert_equal 100 - sent, sender.value
    assert_equal messages, received
  end

  def test_many_messages_between_processes
    consumer = channel.consumer
    pid = child { channel.producer { |producer| producer.send_many(Array.new(3000, &:to_s)) == 3000 } }
    received = []
    received.concat(consumer.recv_many(timeout: 60)) while received.size < 3000
    assert_equal Array.new(3000, &:to_s), received
    assert_predicate Process.wait2(pid).last, :success?
  end

  def test_waits_for_messages_can_be_interrupted
    consumer = channel.consumer
    producer = channel.producer
    filled = producer.send_many(Array.new(100, "x" * 200), timeout: 0)
    waits = [-> { producer.send_many(["x" * 900] * 9) }, -> { producer.reserve(900) }]
    waits.each { |wait| assert_raises(Timeout::Error) { Timeout.timeout(0.1) { wait.call } } }
    assert_equal filled, consumer.recv_many(200).size
    [-> { consumer.recv_many }, -> { consumer.peek }].each do |wait|
      thread = Thread.new(&wait)
      await("the thread") { thread.status == "sleep" }
      assert thread.kill.join(60)
    end
    thread = Thread.new { consumer.peek }
    thread.report_on_exception = false
    await("the thread") { thread.status == "sleep" }
    consumer.close
    assert_raises(Commonhold::ClosedError) { thread.value }
  end

  def test_a_message_stays_until_it_is_advanced
    producer = channel.producer
    consumer = channel.consumer
    assert_nil consumer.peek(timeout: 0)
    refute consumer.advance
    producer.send_many(%w[one two])
    assert_equal %w[one one], [consumer.peek, consumer.peek(timeout: 1)]
    assert consumer.advance
    assert_equal "two", consumer.peek
    assert_equal "two", consumer.recv
    assert_nil consumer.peek(timeout: 0.01)
    assert_raises(Commonhold::InvalidError) { channel.consumer(policy: :lossy).peek(timeout: 0) }
  end

  def test_a_message_in_parts
    producer = channel.producer
    consumer = channel.consumer
    assert_equal(0, producer.reserve(10) { |room| room.write("head").write("tail!!", 4) })
    room = producer.reserve(100)
    assert_equal 100, room.size
    room.write("short")
    [["x" * 101], ["x", 100], ["x", -1], ["x", 1 << 62]].each { |wrong| assert_raises(IndexError) { room.write(*wrong) } }
    assert_raises(Commonhold::TooLargeError) { room.commit(101) }
    assert_equal 1, room.commit(5)
    assert_equal %w[headtail!! short], consumer.recv_many
    assert_raises(Commonhold::InvalidError) { room.write("x") }
    assert_raises(Commonhold::InvalidError) { room.commit }
    assert_raises(Commonhold::TooLargeError) { producer.reserve(5000) }
    assert_raises(NoMethodError) { Commonhold::Reservation.new }
  end

  def test_a_reservation_that_is_over_cannot_be_written
    producer = channel.producer
    consumer = channel.consumer
    endings = [-> { producer.send("x") }, -> { producer.try_send("x") }, -> { producer.send_many(["x"]) },
               -> { producer.reserve(8) }, -> { @room.cancel }]
    endings.each do |ending|
      @room = producer.reserve(8).write("written!")
      ending.call
      refute_predicate @room, :pending?
      assert_raises(Commonhold::InvalidError) { @room.write("again") }
      assert_raises(Commonhold::InvalidError) { @room.cancel }
    end
    assert_equal %w[x x x], consumer.recv_many
    assert_raises(ZeroDivisionError) { producer.reserve(8) { 1 / 0 } }
    assert_nil(producer.reserve(8, &:cancel))
    assert_nil consumer.try_recv
    @room = producer.reserve(8)
    producer.close
    assert_raises(Commonhold::ClosedError) { @room.write("x") }
    @room = channel.producer.reserve(8)
    @hold.close
    assert_raises(Commonhold::ClosedError) { @room.write("x") }
  end

  def queue
    @queue ||= @hold.queue("q", elements: 5, element_bytes: 8, queues: %w[free full])
  end

  def test_many_elements
    elements = queue.pull_many(:free, 3)
    elements.each_with_index { |element, i| element.write(i.to_s) }
    assert_same queue, queue.push_many(:full, elements)
    assert(elements.none?(&:in_flight?))
    assert_equal [2, 3], [queue.size(:free), queue.size(:full)]
    assert_raises(Commonhold::InvalidError) { queue.push_many(:full, elements) }
    pulled = queue.pull_many(:full, 64)
    assert_equal %w[0 1 2], (pulled.map { |element| element.read(0, 1) })
    twice = [pulled[0], pulled[1], pulled[0]]
    assert_raises(Commonhold::InvalidError) { queue.push_many(:full, twice) }
    assert(pulled.all?(&:in_flight?))
    assert_raises(TypeError) { queue.push_many(:full, [pulled[0], "x"]) }
    assert_raises(TypeError) { queue.push_many(:full, nil) }
    queue.push_many(:full, [])
    assert_equal 0, queue.size(:full)
    queue.push_many(:free, pulled)
    assert_equal 5, queue.size(:free)
  end

  def test_push_and_pull
    element = queue.pull(:free).write("first")
    pulled = queue.push_pull(:full, element, "full")
    assert_equal "first", pulled.read(0, 5)
    refute_predicate element, :in_flight?
    next_one = queue.push_pull("full", pulled, 0)
    assert_kind_of Commonhold::Element, next_one
    assert_equal [1, 3], [queue.size(:full), queue.size(:free)]
    held = queue.pull_many(:free, 3)
    assert_nil queue.push_pull(:full, next_one, :free)
    refute_predicate next_one, :in_flight?
    assert_raises(Commonhold::InvalidError) { queue.push_pull(:full, next_one, :full) }
    assert_raises(Commonhold::InvalidError) { queue.push_pull(9, held[0], :full) }
    assert_equal [2, true], [queue.size(:full), held.all?(&:in_flight?)]
  end

  def test_an_event_loop_is_notified
    notifier = queue.notifier(:full)
    assert_nil IO.select([notifier], nil, nil, 0)
    pid = child { queue.push(:full, queue.pull(:free).write("x")) }
    assert_predicate Process.wait2(pid).last, :success?
    assert_equal [[notifier], [], []], IO.select([notifier], nil, nil, 60)
    assert_same notifier, notifier.clear
    assert_equal "x", queue.pull(:full).read(0, 1)
    assert_equal notifier.fileno, notifier.to_io.fileno
    notifier.close
    assert_raises(Commonhold::ClosedError) { notifier.to_io }
    assert_raises(KeyError) { queue.notifier(:none) }
  end

  def test_many_elements_are_waited_for
    assert_equal [], queue.pull_many(:full, 2, timeout: 0.01)
    pid = child { queue.push_many(:full, queue.pull_many(:free, 2)) }
    assert_predicate Process.wait2(pid).last, :success?
    assert_equal 2, queue.pull_many(:full, 5, timeout: 60).size
    waiting = Thread.new { queue.pull_many(:full, 5, timeout: nil) }
    await("the thread") { waiting.status == "sleep" }
    queue.push(:full, queue.pull(:free))
    assert_equal 1, waiting.value.size
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { queue.pull_many(:full, 5, timeout: nil) } }
  end
end
