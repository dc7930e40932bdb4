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
    assert_raises(Commonhold::NotFoundError) { @hold.open_map("none") }
    assert_raises(ArgumentError) { @hold.map("m", mode: :other) }
    @hold.map("m")
    assert_raises(Commonhold::MismatchError) { @hold.queue("m") }
    assert @hold.drop_map("m")
    refute @hold.drop_map("m")
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

  def test_closing_wakes_who_waits
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
    reading = Commonhold.open(small.path, read_only: true).open_map("m")
    assert_equal "old", reading["kept"]
    assert_raises(Commonhold::ReadOnlyError) { reading["kept"] = "new" }
  ensure
    Commonhold.drop("#{@path}.small.hold", force: true)
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

  def test_every_error_is_one_of_ours
    errors = Commonhold.constants.map { |name| Commonhold.const_get(name) }.select { |c| c.is_a?(Class) && c <= Exception }
    assert_equal 22, errors.size
    assert(errors.all? { |error| error < Commonhold::Error && error < StandardError })
    assert_equal errors.size, errors.map { |error| error::CODE }.uniq.size
  end
end
