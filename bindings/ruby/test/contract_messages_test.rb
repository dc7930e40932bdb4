# frozen_string_literal: true

require "logger"
require "tmpdir"
require_relative "helper"

class ContractMessagesTest < Minitest::Test
  include WithHold

  def test_a_queue
    queue = @hold.queue("q", elements: 3, element_bytes: 16, queues: %i[free full])
    assert_equal [3, 0], [queue.size(:free), queue.size("full")]
    element = queue.pull(:free)
    assert_equal 16, element.size
    assert_same element, element.write("hello").write("!", 5)
    assert_equal "hello!", element.read(0, 6)
    assert_equal "lo!", element.read(3, 3)
    assert_raises(IndexError) { element.write("x" * 17) }
    assert_raises(IndexError) { element.write("x", 17) }
    assert_raises(IndexError) { element.read(17) }
    assert_raises(IndexError) { element.read(-1) }
    assert_raises(IndexError) { element.read(0, -1) }
    queue.push(:full, element)
    refute_predicate element, :in_flight?
    assert_raises(ArgumentError) { queue.push(:full, element) }
    assert_raises(ArgumentError) { element.read }
    assert_equal "hello!", queue.pull(:full).read(0, 6)
    assert_raises(KeyError) { queue.pull(:none) }
    assert_raises(TypeError) { queue.push(:full, "bytes") }
    assert_nil queue.try_pull(:full)
    assert_nil queue.pull(:full, timeout: 0.01)
    assert_raises(ArgumentError) { queue.pull(:full, timeout: -1) }
    assert_kind_of Hash, queue.stat
  end

  def test_an_element_is_of_its_queue
    one, other = %w[one other].map { |name| @hold.queue(name, elements: 1, element_bytes: 8) }
    element, its_double = one.pull, other.pull
    assert_equal element.id, its_double.id
    assert_raises(Commonhold::InvalidError) { other.push(0, element) }
    assert_raises(Commonhold::InvalidError) { one.push(9, element) }
    assert_equal [0, 0, true], [one.size, other.size, element.in_flight?]
    @hold.queues.open("one").push(0, element)
    assert_equal [1, 0, false], [one.size, other.size, element.in_flight?]
  end

  def test_elements_without_references_are_orphans
    queue = @hold.queue("q", elements: 4, element_bytes: 8)
    held = queue.pull
    2.times { Array.new(1) { queue.pull } }
    await("the orphans") { GC.start; queue.size >= 2 }
    held.release
    await("all") { GC.start; queue.size >= 3 }
    assert_equal 2, queue.pull_many(0, 2).size
  end

  def test_an_element_outlives_its_queue
    queue = @hold.queue("q", elements: 1, element_bytes: 8)
    element = queue.pull
    queue.close
    assert_raises(IOError) { element.read }
    queue = nil # rubocop:disable Lint/UselessAssignment
    GC.start
    again = @hold.queues.open("q")
    other = nil
    element = nil # rubocop:disable Lint/UselessAssignment
    await("the element") { GC.start; other = again.try_pull }
    assert_equal 8, other.size
    @hold.close
    assert_raises(IOError) { other.read }
  end

  def test_a_channel
    channel = @hold.channel("c", ring_bytes: 1 << 16)
    producer = channel.producer
    assert_raises(Commonhold::BusyError) { channel.producer }
    consumer = channel.consumer
    assert_equal 0, producer.send("one")
    producer << "two\0" << ""
    assert_equal ["one", "two\0", ""], Array.new(3) { consumer.recv }
    assert_equal 2, consumer.last_sequence
    assert_equal 3, consumer.sequence
    assert_nil consumer.try_recv
    assert_nil consumer.recv(timeout: 0.01)
    assert_equal "one", channel.consumer(from: :oldest, policy: :lossy).recv
    assert_raises(Commonhold::TooLargeError) { producer.send("x" * (producer.max_message + 1)) }
    assert_raises(TypeError) { producer.send(1) }
    assert_raises(ArgumentError) { channel.consumer(from: :yesterday) }
    assert_raises(ArgumentError) { @hold.channel("d", ring_bytes: 5) }
    assert_raises(KeyError) { @hold.channels.open("d") }
    producer.close
    assert_raises(IOError) { producer.send("x") }
    channel.producer { |next_one| next_one << "three" }
    assert_equal "three", consumer.first
    assert_kind_of Hash, channel.stat
  end

  def test_a_full_channel
    channel = @hold.channel("c", ring_bytes: 4096)
    producer = channel.producer
    consumer = channel.consumer
    nil while producer.try_send("x" * 500)
    assert_nil producer.send("x" * 500, timeout: 0.01)
    assert_equal Process.pid, producer.waits_for
    sender = Thread.new { producer.send("x" * 500) }
    await("the sender") { sender.status == "sleep" }
    consumer.recv
    assert_kind_of Integer, sender.value
  end

  def test_a_log
    log = @hold.log("l", level: :info)
    assert log.info("first")
    refute log.debug { flunk }
    assert log.warn { "second" }
    log.level = :debug
    assert_equal :debug, log.level
    assert log.write(:debug, "third")
    assert_equal %w[first second third], log.dump.map(&:text)
    assert_equal [3, 2, 4], log.dump.map(&:level)
    assert_match(/first/, log.dump.first.shown)
    assert_raises(ArgumentError) { log.write(:loud, "x") }
    assert_raises(TypeError) { log.info(7) }
    Dir.mktmpdir do |folder|
      collector = log.collect_to_file("#{folder}/log")
      assert_raises(Commonhold::BusyError) { log.collect_to_file("#{folder}/other") }
      assert_operator collector.finish, :>=, 3
      assert_equal 0, collector.poll
      collector.close
      assert_match(/first.*second.*third/m, File.read("#{folder}/log"))
    end
    assert_kind_of Hash, log.stat
  end

  def test_a_log_is_read_as_it_grows
    log = @hold.log("l")
    log.info("first")
    reader = log.reader
    assert_equal ["first"], reader.finish.map(&:text)
    assert_equal [], reader.finish
    pid = child { 3.times { |i| log.info("line #{i}") } }
    assert_predicate Process.wait2(pid).last, :success?
    lines = []
    await("the lines") { lines.concat(reader.poll).size == 3 }
    assert_equal ["line 0", "line 1", "line 2"], lines.map(&:text)
    log.warn("last")
    following = Thread.new { log.reader.each.find { |line| line.text == "later" } }
    await("the thread") { following.status == "sleep" }
    log.error("later")
    assert_equal 1, following.value.level
    assert_equal %w[last later], reader.finish.map(&:text)
    assert_equal %w[first later], (log.reader.finish.map(&:text) & %w[first later])
    tail = Thread.new { reader.each { nil } }
    await("the thread") { tail.status == "sleep" }
    assert tail.kill.join(60)
    reader.close
    assert_raises(Commonhold::ClosedError) { reader.poll }
    assert_raises(NoMethodError) { Commonhold::LogReader.new }
  end

  def test_a_log_is_collected_into_a_pipe
    log = @hold.log("l")
    read, write = IO.pipe
    collector = log.collect_to(write)
    write.close
    assert_raises(Commonhold::BusyError) { log.collect_to($stderr) }
    thread = Thread.new { collector.run }
    log.info("through the pipe")
    assert_match(/thread aa/, read.gets) # It announces its writer.
    assert_match(/through the pipe/, read.gets)
    log.info("left")
    collector.stop
    assert_operator thread.value, :>=, 2
    collector.close
    assert_match(/left/, read.read)
    Dir.mktmpdir do |folder|
      log.info("to a file")
      rounds = 0
      log.collect_to_file("#{folder}/log").tap { |to_file| to_file.run { (rounds += 1) == 3 } }.close
      assert_equal 3, rounds
      assert_match(/to a file/, File.read("#{folder}/log"))
    end
    assert_raises(Commonhold::Error) { log.collect_to(99_999) }
    assert_raises(TypeError) { log.collect_to("path") }
  end

  def test_a_logger
    log = @hold.log("l", level: :trace)
    logger = log.logger(progname: "shop")
    logger.info("two\nlines")
    logger.error(RuntimeError.new("bad"))
    logger.debug { :symbol }
    Logger.new(Commonhold::LoggerDevice.new(log)).warn("usual")
    lines = log.dump
    assert_equal ["shop: two", "lines", "shop: bad (RuntimeError)", "shop: :symbol"], lines.first(4).map(&:text)
    assert_equal [3, 3, 1, 4, 2], lines.map(&:level)
    assert_match(/WARN -- : usual/, lines.last.text)
    logger.close
  end
end
