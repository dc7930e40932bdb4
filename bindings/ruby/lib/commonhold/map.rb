# frozen_string_literal: true

module Commonhold
  # A hash table, bytes to bytes, that looks like a Hash. Readers never wait. Every change of one
  # key is atomic.
  #
  #   views = hold.map("views")
  #   views["a"] = "1"
  #   views.fetch("b") { "none" }       # => "none"
  #   views.increment("hits", 5)        # => 5
  #   views.update("a") { |old| old.to_s + "!" }
  #   views.each { |key, value| puts key, value }
  class Map
    include Enumerable

    private_class_method :new

    alias has_key? key?
    alias include? key?
    alias member? key?
    alias length size
    alias each_pair each

    # Whether there are no pairs.
    def empty?
      size.zero?
    end

    # The value of a key; if absent the result of the block, or +default+, or a KeyError.
    def fetch(key, *default)
      raise ArgumentError, "wrong number of arguments (given #{default.size + 1}, expected 1..2)" if default.size > 1

      value = self[key]
      return value unless value.nil?
      return yield(key) if block_given?
      return default.first unless default.empty?

      raise KeyError.new("key not found: #{key.inspect}", receiver: self, key: key)
    end

    # The values of these keys; for an absent one the block's result, or a KeyError.
    def fetch_values(*keys, &block)
      keys.zip(get_many(keys)).map { |key, value| value.nil? ? fetch(key, &block) : value }
    end

    # Sets a value; in a cache, with +ttl+ seconds to live.
    def store(key, value, ttl: nil)
      return self[key] = value unless ttl

      _set_ttl(key, value, Map.milliseconds(ttl))
    end
    alias set store
    alias get []

    # The values of many keys at once, several times faster than one by one; nil for each that is
    # absent. Each lookup is atomic, the batch is not.
    def get_many(keys)
      _get_many(keys.map { |key| Map.string(key) })
    end

    # Like Hash#values_at.
    def values_at(*keys)
      get_many(keys)
    end

    # Like Hash#slice: the pairs of those keys that are present.
    def slice(*keys)
      keys.zip(get_many(keys)).to_h.compact
    end

    # Sets many pairs, in order, from a Hash or from pairs. Each is atomic, the batch is not: after
    # an error those before it are set.
    def set_many(pairs)
      keys = []
      values = []
      pairs.each do |key, value|
        keys << Map.string(key)
        values << Map.string(value)
      end
      _set_many(keys, values)
    end
    alias merge! set_many

    # Makes a pair expire +ttl+ seconds from now, and keeps its value, in one atomic step.
    # Returns whether the key was there. Caches only.
    def touch(key, ttl)
      _touch(key, Map.milliseconds(ttl))
    end

    # Changes a key from one state to another, if it is in the first; nil stands for "absent".
    # Returns whether it did. In a cache the new value may have +ttl+ seconds to live.
    def compare_exchange(key, expected, replacement, ttl: nil)
      _exchange(key, expected, replacement, ttl && Map.milliseconds(ttl))
    end

    # Passes the old value (nil: absent) to the block, and sets the block's result (nil: deletes),
    # as one atomic step: if another process changes the key meanwhile, the block is called again.
    # Returns the new value.
    def update(key)
      while true # loop would swallow the block's StopIteration
        old = self[key]
        new = yield old
        return new if compare_exchange(key, old, new)
      end
    end

    # Like #update, if the uid still names this key. Returns whether the value was updated.
    def update_uid(uid, key)
      while (pair = get_uid(uid))
        return false unless pair.first.b == Map.string(key).b
        return true if compare_exchange_uid(uid, key, pair.last, yield(pair.last))
      end
      false
    end

    # The value, or the block's result, which is set if the key is still absent then; returns the
    # value in the map.
    def fetch_or_add(key)
      self[key] || begin
        value = yield key
        add(key, value) ? value : (self[key] || value)
      end
    end

    # The keys; the values; not at one instant.
    def keys
      each_key.to_a
    end

    def values
      each.map { |_key, value| value }
    end

    # Like each, for the values.
    def each_value
      return enum_for(:each_value) { size } unless block_given?

      each { |_key, value| yield value }
    end

    # An iteration over all pairs that can be resumed: from the beginning, or from a Pairs#cursor.
    # @return [Pairs]
    def pairs(cursor: 0)
      _pairs(cursor)
    end

    # Whether a pair has this value; reads all of them.
    def value?(value)
      each.any? { |_key, found| found == value }
    end
    alias has_value? value?

    # A key with this value, or nil; reads all of them.
    def key(value)
      each { |key, found| return key if found == value }
      nil
    end

    # The pairs for which the block is true, as a Hash; see each.
    def select
      return enum_for(:select) { size } unless block_given?

      each_with_object({}) { |(key, value), chosen| chosen[key] = value if yield(key, value) }
    end
    alias filter select

    # The pairs for which the block is false, as a Hash; see each.
    def reject
      return enum_for(:reject) { size } unless block_given?

      select { |key, value| !yield(key, value) }
    end

    # A Hash of the block's results.
    def transform_values
      return enum_for(:transform_values) { size } unless block_given?

      each_with_object({}) { |(key, value), made| made[key] = yield(value) }
    end

    # Deletes the pairs for which the block is true, unless they have changed meanwhile. Each
    # deletion is atomic, the whole is not.
    def delete_if
      return enum_for(:delete_if) { size } unless block_given?

      each { |key, value| compare_exchange(key, value, nil) if yield(key, value) }
      self
    end

    # Deletes the pairs for which the block is false, like #delete_if.
    def keep_if
      return enum_for(:keep_if) { size } unless block_given?

      delete_if { |key, value| !yield(key, value) }
    end

    # The value of a key as a list.
    # @return [List]
    def list(key)
      List.new(self, key)
    end

    # Follows the map's changes from now on, or from a position (Follower#position). See
    # Maps#begin_stream.
    # @return [Follower]
    def follow(from: nil)
      _follow(from)
    end

    # Waits until every change made so far is in the map's journal ("hold journal") and safe on the
    # disk, for +timeout+ seconds at most (nil: as long as it takes); then raises TimedOutError.
    # Returns the position up to which that is so.
    def sync(timeout: 30)
      _sync(timeout)
    end

    # Waits until at least +count+ replicas have applied every change made so far, so that their
    # readers see it; for +timeout+ seconds at most (nil: as long as it takes), then raises
    # TimedOutError. Returns the number of replicas that have.
    def wait_for_replicas(count, timeout: 30)
      _wait_for_replicas(count, timeout)
    end

    # The same for the replica with this name ("hold replica --name"); if several have it, for one
    # of them.
    def wait_for_replica(name, timeout: 30)
      _wait_for_replica(name, timeout)
    end

    # The statistics of the map, as a Hash.
    def stat
      JSON.parse(_describe)
    end

    def inspect
      "#<Commonhold::Map #{name.inspect}>"
    rescue ClosedError
      "#<Commonhold::Map closed>"
    end

    # @private
    def self.milliseconds(ttl)
      raise ArgumentError, "expected a time to live from 0 on, got #{ttl}" if ttl.negative?

      (ttl * 1000).ceil
    end

    # @private
    def self.string(text)
      String.try_convert(text) or raise TypeError, "no implicit conversion of #{text.class} into String"
    end
  end

  # An iteration over a map (Map#pairs). For one thread at a time.
  class Pairs
    include Enumerable

    private_class_method :new

    # Yields the remaining pairs.
    def each
      return enum_for(:each) unless block_given?

      while (pair = self.next)
        yield pair
      end
      self
    end
  end

  # A change of a map: +kind+ is :set, :delete, :expire, :evict, :clear or :gap (a change too large
  # for the stream: read the map again).
  class Change
    KINDS = { 1 => :set, 2 => :delete, 3 => :expire, 4 => :evict, 5 => :clear, 6 => :gap }.freeze
    private_constant :KINDS

    def kind
      KINDS[code]
    end
  end

  # Reads all changes of a map, in order per key. LappedError if it was too slow: read the whole map
  # and follow again.
  class Follower
    include Receiving

    private_class_method :new
  end
end
