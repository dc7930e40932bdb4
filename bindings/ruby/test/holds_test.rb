# frozen_string_literal: true

require_relative "helper"
require "socket"

# Origins and replicas of whole holds.
class HoldsTest < Minitest::Test
  include WithHold

  def setup
    super
    @socket = "#{@path}.socket"
    @address = "unix:#{@socket}"
    @other = Commonhold.open("#{@path}.other.hold")
  end

  def teardown
    @other.close
    Commonhold.remove("#{@path}.other.hold", force: true)
    super
    File.delete(@socket) if File.exist?(@socket)
  end

  # A child that serves the maps until it is killed.
  def origin_child(maps, **options)
    ready, write = IO.pipe
    pid = child do
      @kept = Commonhold.open(@path).hold_origin(maps, **options)
      @kept.listen(@address)
      write.puts("listens")
      sleep
    end
    write.close
    assert_equal "listens", ready.gets&.chomp
    pid
  end

  def states(replica)
    replica.status["maps"].to_h { |map| map.values_at("name", "state") }
  end

  def test_all_maps_of_another_process_are_followed
    %w[prices people plain quantities].each { |name| @hold.map(name)["a"] = name }
    @other.map("plain")
    pid = origin_child(["p*"], stream_bytes: 1 << 20, secret: "s", compression: :always)
    @other.hold_replica(@address, %w[pr* pl* pe*], secret: "s", first_pause: 0.001) do |replica|
      assert replica.wait_ready(timeout: 60)
      assert_equal({ "people" => "followed", "plain" => "skipped", "prices" => "followed" }, states(replica))
      assert_equal "prices", @other.maps.open("prices")["a"]
      assert_raises(Commonhold::NotFoundError) { @other.maps.open("quantities") }
      @hold.map("prompt")["b"] = "2"
      await("the new map") { states(replica).key?("prompt") }
      assert replica.wait_ready(timeout: 60)
      assert_equal "2", @other.maps.open("prompt")["b"]
      @hold.maps.drop("people")
      await("the drop") { states(replica)["people"] == "dropped" }
      assert_equal "people", @other.maps.open("people")["a"]
      Process.kill(:KILL, pid)
      Process.wait(pid)
      await("the loss") { replica.status.values_at("connected", "last_error").then { |on, why| !on && why } }
    end
  end

  def test_an_origin_of_a_hold_serves_single_maps
    @hold.map("prices")["a"] = "1"
    @hold.map("others")
    server = UNIXServer.new(@socket)
    origin = @hold.hold_origin(stream_bytes: 1 << 20, uids: [Process.uid])
    assert_equal @address, origin.listen_on(server)
    server.close
    @other.replica("copy", @address, origin_map: "prices", name: "near") do |replica|
      assert replica.wait_ready(timeout: 60)
      assert_equal "1", @other.maps.open("copy")["a"]
      served = origin.maps.to_h { |map| [map["name"], map["replicas"].map { |one| one["name"] }] }
      assert_equal({ "others" => [], "prices" => ["near"] }, served)
      @hold.map("prices")["last"] = "2"
      origin.close(timeout: 60)
      assert_equal "2", @other.maps.open("copy")["last"]
    end
    assert_raises(Commonhold::ClosedError) { origin.maps }
  ensure
    origin&.close
  end

  def test_wrong_arguments
    assert_raises(TypeError) { @hold.hold_origin("p*") }
    assert_raises(TypeError) { @hold.hold_origin([1]) }
    assert_raises(Commonhold::InvalidError) { @hold.hold_origin([""]) }
    assert_raises(Commonhold::InvalidError) { @hold.hold_origin(explicit: true) }
    assert_raises(ArgumentError) { @hold.hold_origin(thread: 1) }
    assert_raises(ArgumentError) { @other.hold_replica(@address, origin_map: "m") }
    assert_raises(ArgumentError) { @other.hold_replica(@address, prefix: "a") }
    assert_raises(Commonhold::InvalidError) { @other.hold_replica("nonsense") }
    assert_raises(Commonhold::InvalidError) { @other.hold_replica(@address, [""]) }
    assert_raises(NoMethodError) { Commonhold::HoldOrigin.new }
    @hold.hold_origin { |origin| assert_raises(Commonhold::InvalidError) { origin.listen("tcp:0.0.0.0:0") } }
  end

  # Nothing listens there, so the wait has no end of its own.
  def test_waits_let_other_threads_run_and_can_be_interrupted
    replica = @other.hold_replica(@address)
    refute replica.wait_ready(timeout: 0.01)
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { replica.wait_ready } }
    thread = Thread.new { replica.wait_ready }
    thread.report_on_exception = false
    await("the thread") { thread.status == "sleep" }
    replica.close
    assert_raises(Commonhold::ClosedError) { thread.value }
  end

  def test_a_child_ends_nothing_of_its_parents
    @hold.map("prices")["a"] = "1"
    origin = @hold.hold_origin(stream_bytes: 1 << 20)
    origin.listen(@address)
    replica = @other.hold_replica(@address)
    assert replica.wait_ready(timeout: 60)
    assert_child do
      uses = [-> { origin.maps }, -> { replica.status }, -> { replica.wait_ready }]
      raised = uses.map { |use| use.call && nil rescue $!.class } # rubocop:disable Style/RescueModifier
      [origin, replica].each(&:close)
      raised == [Commonhold::InvalidError] * 3
    end
    @hold.map("prices")["b"] = "2"
    await("the change") { @other.maps.open("prices").key?("b") }
  ensure
    origin&.close
    replica&.close
  end
end
