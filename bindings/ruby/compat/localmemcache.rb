# frozen_string_literal: true

require "fileutils"
require "commonhold"

# The interface of Localmemcache over a hold: a hash of strings in shared memory.
#
#   counters = LocalMemCache.new(:namespace => :viewcounters)
#   # or LocalMemCache.new(:filename => "./viewcounters.lmc")
#   counters[:foo] = 1
#   counters[:foo]            # => "1"
#   counters.delete(:foo)
#
# Keys and values are anything that has a to_s; nil is the empty string. Strings come back binary.
# The file is a hold, so that `hold` and every language see the pairs, in the map "localmemcache".
# Files that Localmemcache itself wrote are not read (DBVersionNotSupported).
class LocalMemCache < Commonhold::Pool
  # All errors of this class.
  class LocalMemCacheError < StandardError; end
  %w[ShmError MemoryPoolFull LockError LockTimedOut OutOfMemoryError ArgError InitError RecoveryFailed ShmLockFailed
     ShmUnlockFailed MemoryPoolClosed DBVersionNotSupported].each do |name|
    const_set(name, Class.new(LocalMemCacheError))
  end

  MAP = "localmemcache"
  MIB = 1024 * 1024
  private_constant :MAP, :MIB

  # The class for each code of Commonhold; ShmError otherwise.
  ERRORS = {
    Commonhold::FullError::CODE => MemoryPoolFull, Commonhold::TooLargeError::CODE => MemoryPoolFull,
    Commonhold::ClosedError::CODE => MemoryPoolClosed, Commonhold::TimedOutError::CODE => LockTimedOut,
    Commonhold::InvalidError::CODE => ArgError, Commonhold::MismatchError::CODE => InitError,
    Commonhold::NotAHoldError::CODE => DBVersionNotSupported, Commonhold::VersionError::CODE => DBVersionNotSupported,
    Commonhold::TruncatedError::CODE => RecoveryFailed, Commonhold::DamagedError::CODE => RecoveryFailed,
    Commonhold::UncleanError::CODE => RecoveryFailed, Commonhold::PermissionError::CODE => InitError,
    Commonhold::TooManyParticipantsError::CODE => InitError
  }.freeze
  private_constant :ERRORS

  class << self
    # Opens a pool, or creates it.
    #
    # @option options :namespace [String, Symbol] a name; the file lies in
    #   $LMC_NAMESPACES_ROOT_PATH, else in /var/tmp/localmemcache
    # @option options :filename [String] a file of any name, instead
    # @option options :size_mb [Numeric] creation: its maximum size; 1024; at least 1
    # @option options :min_alloc_size [Integer] room for values that will grow
    def new(options)
      pool = allocate
      pool.__send__(:initialize, options || {})
      pool
    end

    # Deletes a pool. Processes that have it open continue with the memory that they have. With
    # :force a missing pool is not an error.
    def drop(options)
      path = path_of(options)
      translated { Commonhold.remove(path, force: true) }
      nil
    rescue ShmError
      raise if File.exist?(path) || !options[:force]
    end

    # Repairs a pool if necessary: recovers after killed processes, and after a system crash saves
    # the intact pairs.
    def check(options)
      path = path_of(options)
      open_hold(path, create: false, &:sweep)
      nil
    end

    # Older names.
    def clear_namespace(namespace, repair = false) # rubocop:disable Style/OptionalBooleanParameter
      drop(namespace: namespace, force: true || repair)
    end

    def check_namespace(namespace)
      check(namespace: namespace)
    end

    # @private
    def path_of(options)
      return File.expand_path(options[:filename].to_s) if options[:filename]
      raise ArgError, "a pool needs a :namespace or a :filename" unless options[:namespace]

      name = options[:namespace].to_s
      raise ArgError, "expected a namespace without a slash, got #{name}" if name.empty? || name.include?("/")

      root = ENV.fetch("LMC_NAMESPACES_ROOT_PATH", "/var/tmp/localmemcache")
      File.expand_path("#{name}.lmc", root)
    end

    # @private
    def open_hold(path, **options, &block)
      translated do
        Commonhold.open(path, **options, &block)
      rescue Commonhold::UncleanError
        Commonhold.salvage(path)
        Commonhold.open(path, **options, &block)
      end
    end

    # @private
    def translated
      yield
    rescue Commonhold::Error => e
      raise ERRORS.fetch(e.class::CODE, ShmError), e.message
    end
  end

  def initialize(options)
    super()
    path = LocalMemCache.path_of(options)
    FileUtils.mkdir_p(File.dirname(path)) if options[:namespace] && !options[:filename]
    bytes = (Float(options[:size_mb] || 0) * MIB).to_i
    bytes = 1024 * MIB if bytes.zero?
    @hold = LocalMemCache.open_hold(path, max_bytes: [bytes, MIB].max)
    @map = LocalMemCache.translated { @hold.map(MAP, value_room: Integer(options[:min_alloc_size] || 0)) }
    adopt(@map)
  rescue ArgumentError, TypeError => e
    raise ArgError, e.message
  end

  # Yields each key and value; returns nil.
  def each_pair(&block)
    open_map { |map| map.each(&block) }
    nil
  end

  # The keys, as an Array.
  def keys
    open_map(&:keys)
  end

  # A random pair, as an Array of two, or nil if there is none.
  def random_pair
    open_map(&:random_pair)
  end

  # The number of pairs.
  def size
    open_map(&:size)
  end

  # Deletes all pairs.
  def clear
    open_map(&:clear)
    nil
  end

  # Closes the pool; later uses raise MemoryPoolClosed.
  def close
    open_map do
      adopt(nil)
      @hold.close
    end
    nil
  end

  # Sizes: :total_bytes is the limit, :used_bytes the part in use, :free_bytes the rest. A hold
  # grows at its end, so all free bytes count as one chunk, the largest.
  def shm_status
    open_map do
      stat = @hold.stat
      total = stat.fetch("max_bytes")
      used = stat.fetch("used_bytes")
      { free_bytes: total - used, total_bytes: total, used_bytes: used, free_chunks: 1, largest_chunk: total - used }
    end
  end

  # Whether the pool is sound.
  def check_consistency
    open_map { @hold.check.empty? }
  end

  private

  def open_map
    raise MemoryPoolClosed, "the pool is closed; open it again with new" if @hold.closed?

    LocalMemCache.translated { yield @map }
  end

  def _raise(code, message)
    raise ERRORS.fetch(code, ShmError), message
  end

  # Stores Ruby objects as values, by Marshal; keys are still strings.
  class SharedObjectStorage < LocalMemCache
    def get(key)
      value = super
      value && Marshal.load(value) # rubocop:disable Security/MarshalLoad
    end
    alias [] get

    def set(key, value)
      super(key, Marshal.dump(value))
    end
    alias []= set

    def each_pair
      super { |key, value| yield key, Marshal.load(value) } # rubocop:disable Security/MarshalLoad
    end

    def random_pair
      key, value = super
      key && [key, Marshal.load(value)] # rubocop:disable Security/MarshalLoad
    end
  end
end
