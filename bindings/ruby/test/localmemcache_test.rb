# frozen_string_literal: true

require "tmpdir"
require_relative "helper"
require "localmemcache"

class LocalMemCacheTest < Minitest::Test
  def setup
    @folder = Dir.mktmpdir("commonhold-lmc", "/dev/shm")
    ENV["LMC_NAMESPACES_ROOT_PATH"] = @folder
    @pool = LocalMemCache.new(namespace: "test", size_mb: 2)
  end

  def teardown
    @pool.close
  rescue LocalMemCache::MemoryPoolClosed
    nil
  ensure
    FileUtils.rm_rf(@folder)
  end

  def test_get_and_set
    assert_nil @pool.get("none")
    assert_nil @pool.set("foo", "1")
    assert_equal "1", @pool.get("foo")
    @pool[:boo] = 2
    assert_equal "2", @pool["boo"]
    assert_equal "2", LocalMemCache.new(namespace: :test)[:boo]
    assert @pool.delete(:boo)
    refute @pool.delete(:boo)
    assert_nil @pool[:boo]
  end

  def test_nil_symbols_and_nul
    @pool[:bar] = nil
    assert @pool.has_key?(:bar)
    assert_equal "", @pool[:bar]
    refute @pool.has_key?("none")
    @pool[nil] = "of nil"
    assert_equal "of nil", @pool[nil]
    @pool["nul\0key"] = "foo\0goo"
    assert_equal "foo\0goo", @pool["nul\0key"]
    assert_nil @pool["nul"]
    @pool[1.5] = [1]
    assert_equal "[1]", @pool["1.5"]
  end

  def test_walks
    assert_nil @pool.random_pair
    3.times { |i| @pool[i] = "v#{i}" }
    assert_equal %w[0 1 2], @pool.keys.sort
    seen = {}
    assert_nil(@pool.each_pair { |key, value| seen[key] = value })
    assert_equal({ "0" => "v0", "1" => "v1", "2" => "v2" }, seen)
    assert_equal 2, @pool.random_pair.size
    assert_equal 3, @pool.size
    assert_nil @pool.clear
    assert_equal 0, @pool.size
    assert @pool.check_consistency
  end

  def test_full_and_closed
    @pool["kept"] = "a"
    assert_raises(LocalMemCache::MemoryPoolFull) { @pool["kept"] = "b" * 8_000_000 }
    assert_equal "a", @pool["kept"]
    assert_nil @pool.close
    %i[keys size clear random_pair shm_status check_consistency close].each do |operation|
      assert_raises(LocalMemCache::MemoryPoolClosed) { @pool.public_send(operation) }
    end
    assert_raises(LocalMemCache::MemoryPoolClosed) { @pool["kept"] }
    assert_raises(LocalMemCache::MemoryPoolClosed) { @pool["kept"] = "x" }
    assert_raises(LocalMemCache::MemoryPoolClosed) { @pool.delete("kept") }
    assert_raises(LocalMemCache::MemoryPoolClosed) { @pool.has_key?("kept") }
    assert_raises(LocalMemCache::MemoryPoolClosed) { @pool.each_pair { nil } }
  end

  def test_sizes
    small = LocalMemCache.new(namespace: :toosmall, size_mb: 0.1)
    status = small.shm_status
    assert_equal 1024 * 1024, status[:total_bytes]
    assert_equal %i[free_bytes free_chunks largest_chunk total_bytes used_bytes], status.keys.sort
    assert_equal status[:total_bytes], status[:free_bytes] + status[:used_bytes]
    assert_equal 1024 * 1024 * 1024, LocalMemCache.new(namespace: :usual).shm_status[:total_bytes]
    grows = LocalMemCache.new(filename: "#{@folder}/grows.lmc", size_mb: 1, min_alloc_size: 512)
    grows[:a] = "x"
    assert_equal "x", grows[:a]
  end

  def test_files
    Dir.chdir(@folder) do
      LocalMemCache.drop(filename: ".a.lmc", force: true)
      pool = LocalMemCache.new(filename: ".a.lmc", size_mb: 1)
      pool[:boo] = 1
      assert_path_exists ".a.lmc"
      assert_nil LocalMemCache.check(filename: ".a.lmc")
      assert_nil LocalMemCache.drop(filename: ".a.lmc")
      refute_path_exists ".a.lmc"
      assert_equal "1", pool[:boo]
      assert_raises(LocalMemCache::ShmError) { LocalMemCache.drop(filename: ".a.lmc") }
      File.write("old.lmc", "LMC" * 10_000)
      assert_raises(LocalMemCache::DBVersionNotSupported) { LocalMemCache.new(filename: "old.lmc") }
    end
  end

  def test_wrong_options
    assert_raises(LocalMemCache::ArgError) { LocalMemCache.new({}) }
    assert_raises(LocalMemCache::ArgError) { LocalMemCache.new(namespace: "x", size_mb: "many") }
    assert_raises(LocalMemCache::ArgError) { LocalMemCache.drop({}) }
    assert_raises(LocalMemCache::ArgError) { LocalMemCache.check(namespace: "../x") }
    errors = LocalMemCache.constants.map { |name| LocalMemCache.const_get(name) }.grep(Class).select { |c| c <= Exception }
    assert_equal 14 - 1, errors.size
    assert(errors.all? { |error| error <= LocalMemCache::LocalMemCacheError })
  end

  def test_a_killed_writer_harms_no_other
    reader, writer = IO.pipe
    pid = fork do
      pool = LocalMemCache.new(namespace: "test")
      i = 0
      loop do
        pool.set(i % 1000, i)
        writer.write(".") if (i += 1) == 5000
      end
    end
    reader.read(1)
    Process.kill(:KILL, pid)
    Process.wait(pid)
    LocalMemCache.check(namespace: "test")
    assert @pool.check_consistency
    assert_equal 1000, @pool.size
    @pool[:after] = "fine"
    assert_equal "fine", @pool[:after]
  end

  def test_objects
    store = LocalMemCache::SharedObjectStorage.new(namespace: "objects", size_mb: 2)
    assert_nil store["none"]
    store.set("array", %i[foo boo])
    assert_equal %i[foo boo], store["array"]
    assert_equal %i[foo boo], store.get("array")
    assert_equal ["array", %i[foo boo]], store.random_pair
    store.each_pair { |key, value| assert_equal ["array", %i[foo boo]], [key, value] }
    store[:nothing] = nil
    assert store.has_key?(:nothing)
    assert_nil store[:nothing]
    assert store.delete(:nothing)
    assert_equal ["array"], store.keys
    store.clear
    assert_nil store.random_pair
  end
end
