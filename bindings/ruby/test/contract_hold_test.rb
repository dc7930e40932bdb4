# frozen_string_literal: true

require_relative "helper"

class ContractHoldTest < Minitest::Test
  include WithHold

  def test_opening
    assert_equal @path, @hold.path
    assert_raises(Commonhold::ExistsError) { Commonhold.open(@path, create: true) }
    error = assert_raises(KeyError) { Commonhold.open("#{@path}.none.hold", create: false) }
    assert_kind_of Commonhold::Error, error
    assert_kind_of Commonhold::NotFoundError, error
    assert_raises(ArgumentError) { Commonhold.open(@path, crate: true) }
    assert_raises(ArgumentError) { Commonhold.open(@path, create: 1) }
    assert_raises(ArgumentError) { Commonhold.open("a\0b") }
    assert_raises(TypeError) { Commonhold.open(7) }
    assert_raises(ArgumentError) { Commonhold.open("#{@path}2.hold", max_bytes: -1) }
    assert_equal 7, Commonhold.open(@path) { 7 }
    assert_includes Commonhold.list("/dev/shm").to_s, File.basename(@path, ".hold")
    assert_match(/\A\d+\.\d+/, Commonhold.library_version)
  end

  def test_names
    assert_raises(ArgumentError) { @hold.map("") }
    assert_raises(ArgumentError) { @hold.map("\xff") }
    assert_raises(ArgumentError) { @hold.map("a\0b") }
    assert_raises(ArgumentError) { @hold.map("x" * 201) }
    assert_raises(TypeError) { @hold.map(:symbol) }
    assert_raises(Commonhold::NotFoundError) { @hold.maps.open("none") }
    assert_raises(ArgumentError) { @hold.map("m", mode: :other) }
    @hold.map("m")
    assert_raises(Commonhold::MismatchError) { @hold.queues.open("m") }
    assert @hold.maps.drop("m")
    refute @hold.maps.drop("m")
  end

  def test_wrong_types_are_type_errors
    map = @hold.map("m")
    [nil, 1, :a, [], Object.new].each do |wrong|
      assert_raises(TypeError) { map[wrong] }
      assert_raises(TypeError) { map[wrong] = "x" }
      assert_raises(TypeError) { map["x"] = wrong }
      assert_raises(TypeError) { map.delete(wrong) }
    end
    assert_raises(NoMethodError) { Commonhold::Map.new }
    assert_raises(TypeError) { Commonhold::Map.allocate }
  end

  def test_closed_is_an_io_error
    map = @hold.map("m")
    other = @hold.map("m")
    other.close
    other.close
    assert_raises(Commonhold::ClosedError) { other["a"] }
    walk = map.each
    consumer = @hold.channel("c", ring_bytes: 4096).consumer
    @hold.close
    @hold.close
    assert_predicate @hold, :closed?
    assert_raises(IOError) { map["a"] }
    assert_raises(IOError) { map["a"] = "b" }
    assert_raises(IOError) { walk.next }
    assert_raises(IOError) { @hold.map("m") }
    assert_raises(IOError) { consumer.recv }
    assert_includes @hold.inspect, "closed"
  end

  def test_closing_wakes_waiting_threads
    consumer = @hold.channel("c", ring_bytes: 4096).consumer
    thread = Thread.new { consumer.recv }
    thread.report_on_exception = false
    await("the thread") { thread.status == "sleep" }
    consumer.close
    assert_raises(IOError) { thread.value }
  end

  def test_full_and_read_only
    small = Commonhold.open("#{@path}.small.hold", max_bytes: 1 << 20)
    map = small.map("m")
    map["kept"] = "old"
    assert_raises(Commonhold::FullError) { map["kept"] = "x" * (2 << 20) }
    assert_equal "old", map["kept"]
    reading = Commonhold.open(small.path, read_only: true).maps.open("m")
    assert_equal "old", reading["kept"]
    assert_raises(Commonhold::ReadOnlyError) { reading["kept"] = "new" }
  ensure
    Commonhold.remove("#{@path}.small.hold", force: true)
  end

  def test_structures_by_name
    options = { maps: {}, queues: { elements: 2, element_bytes: 64 }, channels: { ring_bytes: 4096 }, logs: { level: :warn } }
    options.each do |plural, given|
      structures = @hold.public_send(plural)
      assert_empty structures.list
      assert_raises(Commonhold::NotFoundError) { structures.open("it") }
      opened = [structures.create("it", **given)]
      assert_raises(Commonhold::ExistsError) { structures.create("it", **given) }
      opened << structures.open_or_create("it", **given) << structures.open("it")
      assert_equal %w[it it it], opened.map(&:name)
      opened.each(&:close)
      other = plural == :maps ? @hold.queues : @hold.maps
      assert_raises(Commonhold::MismatchError) { other.drop("it") }
      assert_raises(Commonhold::MismatchError) { other.open("it") }
      structures.open_or_create("second", **given).close
      assert_equal %w[it second], structures.each.to_a
      assert_equal([["it", "second"], 2, true, false],
                   [structures.list.map { |found| found["name"] }, structures.size, structures.include?("it"),
                    other.include?("it")])
      assert_includes structures.inspect, @path
      assert_equal [true, true, false], [structures.drop("it"), structures.drop("second"), structures.drop("second")]
    end
    assert_raises(ArgumentError) { @hold.maps.create("m", ring_bytes: 1) }
    assert_raises(ArgumentError) { @hold.queue("q") }
    assert_raises(ArgumentError) { @hold.channel("c", ring_bytes: 0) }
  end

  def test_structures_of_all_kinds
    @hold.queues.create("q", elements: 3, element_bytes: 64)
    @hold.logs.create("l", rings: 1)
    @hold.maps.create("m")
    assert_equal %w[l q], @hold.structures.map { |found| found["name"] }
    reading = Commonhold.open(@path, read_only: true)
    assert_equal 3, reading.queues.stat("q")["elements"]
    assert @hold.maps.begin_stream("m", 1 << 16)
    refute @hold.maps.begin_stream("m")
    refute @hold.maps.promote("m")
    assert_equal Process.pid, @hold.participants.first["pid"]
    assert_match(/\A\h{32}\z/, @hold.uuid)
    assert_equal reading.uuid, @hold.uuid
    assert_equal @path, Commonhold.resolve(@path)
    assert_equal "/a/x.hold", Commonhold.resolve("x", "/a")
  end

  def test_backup_check_sweep
    @hold.map("m")["a"] = "1"
    assert_empty @hold.check
    assert_equal 0, @hold.sweep
    assert_kind_of Integer, @hold.trim
    assert_equal 1, @hold.backup("#{@path}.backup")
    assert_raises(Commonhold::ExistsError) { @hold.backup("#{@path}.backup") }
    assert_equal 1, Commonhold.restore("#{@path}.backup", "#{@path}.again.hold")
    Commonhold.open("#{@path}.again.hold") { |again| assert_equal "1", again.map("m")["a"] }
  ensure
    File.delete("#{@path}.backup", "#{@path}.again.hold")
  end

  def test_a_frozen_hold
    map = @hold.map("m")
    map["a"] = "1"
    result = @hold.with_frozen do
      assert_raises(Commonhold::BusyError) { map["a"] = "2" }
      assert_raises(Commonhold::BusyError) { @hold.with_frozen { flunk } }
      map["a"] * 2
    end
    assert_equal "11", result
    assert_raises(ZeroDivisionError) { @hold.with_frozen { 1 / 0 } }
    assert_equal(:thrown, catch(:out) { @hold.with_frozen { throw :out, :thrown } })
    assert_equal :broken, (@hold.with_frozen { break :broken })
    assert_raises(LocalJumpError, ArgumentError) { @hold.with_frozen }
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { @hold.with_frozen { sleep } } }
    map["a"] = "3" # It is thawed each time.
  end

  def test_writers_wait_while_the_hold_is_frozen
    map = @hold.map("m")
    pid = child { while true do @hold.map("m").increment("n") end }
    await("the writer") { map.increment("n", 0) > 10 }
    thread = nil
    @hold.with_frozen do
      thread = Thread.new { map["mine"] = "x" }
      await("the thread") { thread.status == "sleep" }
      before = map["n"]
      200.times { Thread.pass && assert_equal(before, map["n"]) }
      assert_nil map["mine"]
      assert_child { map["n"] == before }
    end
    thread.join
    assert_equal "x", map["mine"]
    killed = Thread.new { @hold.with_frozen { sleep } }
    await("the thread") { killed.status == "sleep" }
    assert killed.kill.join(60)
    before = map["n"]
    await("the writer") { map["n"] != before }
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  def test_every_error_is_one_of_ours
    errors = Commonhold.constants.map { |name| Commonhold.const_get(name) }.select { |c| c.is_a?(Class) && c <= Exception }
    assert_equal 23, errors.size
    assert(errors.all? { |error| error < Commonhold::Error && error < StandardError })
    assert_equal errors.size, errors.map { |error| error::CODE }.uniq.size
  end
end
