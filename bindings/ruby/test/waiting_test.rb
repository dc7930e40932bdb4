# frozen_string_literal: true

require_relative "helper"

# Waiting for replicas and for the journal. Both are other programs, so the tests make the notes in
# the hold that an origin and a journal make.
class WaitingTest < Minitest::Test
  include WithHold

  def setup
    super
    @map = @hold.map("m")
    @hold.maps.begin_stream("m", 1 << 20)
    @map["a"] = "1"
  end

  # The end of the stream.
  def now
    @map.follow.position
  end

  # Notes that a replica of this map has applied all changes.
  def note(node, of, name)
    stream, offset = now.split(".")
    notes = @hold.map(".acks/m", encoding: Encoding::BINARY)
    notes[[node].pack("Q<")] = of + [stream.to_i(16), offset.to_i].pack("Q<2") + name.b
  end

  # Hold, root and incarnation of the map, as notes have it: found by trying.
  def of_map
    numbers = (0...8).to_a.product((0...8).to_a)
    @of_map ||= numbers.map { |pair| [@hold.uuid].pack("H*") + pair.pack("Q<2") }.find do |of|
      note(0, of, "probe")
      @map.wait_for_replica("probe", timeout: 0) || true
    rescue Commonhold::TimedOutError
      false
    ensure
      @hold.map(".acks/m", encoding: Encoding::BINARY).delete([0].pack("Q<"))
    end
  end

  # Notes that a replica has applied all changes.
  def applied(node, name)
    note(node, of_map, name)
  end

  def times_out(text, &block)
    error = assert_raises(Commonhold::TimedOutError, &block)
    assert_includes error.message, text
  end

  def test_replicas_are_waited_for_by_number_and_by_name
    assert_equal 0, @map.wait_for_replicas(0, timeout: 0)
    times_out("0 of 1 replicas") { @map.wait_for_replicas(1, timeout: 0.01) }
    applied(1, "near")
    assert_equal 1, @map.wait_for_replicas(1)
    assert_nil @map.wait_for_replica("near")
    times_out("1 of 2 replicas") { @map.wait_for_replicas(2, timeout: 0.01) }
    times_out("no replica with the name 'far'") { @map.wait_for_replica("far", timeout: 0) }
    @map["b"] = "2"
    times_out("'near' has not applied") { @map.wait_for_replica("near", timeout: 0.06) }
  end

  def test_wrong_arguments_and_maps_without_a_stream
    assert_raises(ArgumentError) { @map.wait_for_replicas(-1) }
    assert_raises(TypeError) { @map.wait_for_replica(7) }
    assert_raises(Commonhold::InvalidError) { @map.wait_for_replica("") }
    alone = @hold.map("alone")
    assert_raises(Commonhold::NotFoundError) { alone.wait_for_replicas(1) }
    assert_raises(Commonhold::NotFoundError) { alone.sync }
  end

  def test_a_waiting_thread_lets_others_run
    threads = [Thread.new { @map.wait_for_replicas(2) }, Thread.new { @map.wait_for_replica("near") }]
    await("both") { threads.all? { |thread| thread.status == "sleep" } }
    # Changes during the wait do not count.
    position = now
    applied(1, "near")
    @map["b"] = "2"
    assert_nil threads.last.value
    applied(2, "")
    assert_equal 2, threads.first.value
    refute_equal position, now
  end

  def test_timeouts_and_kills_interrupt
    assert_raises(Timeout::Error) { Timeout.timeout(0.02) { @map.wait_for_replicas(1, timeout: nil) } }
    thread = Thread.new { @map.wait_for_replica("near", timeout: nil) }
    await("the thread") { thread.status == "sleep" }
    thread.kill
    assert thread.join(20)
    thread = Thread.new { @map.wait_for_replicas(1, timeout: nil) }
    thread.report_on_exception = false
    await("the thread") { thread.status == "sleep" }
    @map.close
    assert_raises(Commonhold::ClosedError) { thread.value }
  end

  def test_the_journal_is_waited_for
    assert_raises(Commonhold::NotFoundError) { @map.sync }
    said = @hold.map(".journal/m")
    producer = @hold.channel(".durable/m", ring_bytes: 4096).producer
    file = File.stat(__FILE__)
    said["file"] = [file.dev, file.ino].pack("Q<2") + File.expand_path(__FILE__).b
    times_out("did not make all changes durable") { @map.sync(timeout: 0.06) }
    thread = Thread.new { @map.sync }
    await("the thread") { thread.status == "sleep" }
    said["durable"] = of_map + now
    producer.send("")
    assert_equal now, thread.value
  end
end
