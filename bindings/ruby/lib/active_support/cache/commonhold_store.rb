# frozen_string_literal: true

require "active_support"
require "active_support/cache"
require "commonhold"

module ActiveSupport
  module Cache
    # A cache that all processes of a machine share, at memory speed, and that survives them.
    #
    #   config.cache_store = :commonhold_store, "cache",
    #                        { max_bytes: 256 << 20, expires_in: 1.hour }
    #
    # Entries expire by themselves, even if no process reads them; beyond +max_bytes+ or
    # +max_entries+ the least used are evicted. increment and decrement are atomic across processes.
    # Usable before and after fork.
    class CommonholdStore < Store

      def self.supports_cache_versioning?
        true
      end

      # @param hold [String, Commonhold::Hold] a name, a path, or an open hold
      # @param map [String] the map's name in it
      # @param max_bytes [Integer] the most bytes of entries; 64 MiB
      # @param max_entries [Integer] the most entries
      def initialize(hold = "rails-cache", options = nil, map: "cache", max_bytes: 64 << 20, max_entries: 0, **others)
        super((options || {}).merge(others))
        map = @options.delete(:map) || map
        max_bytes = @options.delete(:max_bytes) || max_bytes
        max_entries = @options.delete(:max_entries) || max_entries
        @hold = hold.is_a?(Commonhold::Hold) ? hold : Commonhold.open(hold)
        @map = @hold.map(map, mode: :cache, max_bytes: max_bytes, max_entries: max_entries)
      end

      # The map that stores the entries, for statistics: <tt>store.map.stat</tt>.
      attr_reader :map

      # Deletes all entries, of all namespaces.
      def clear(_options = nil)
        @map.clear
        true
      end

      # Nothing to do: expired entries are removed automatically.
      def cleanup(_options = nil)
        true
      end

      # Deletes the entries whose key matches; reads every key.
      def delete_matched(matcher, options = nil)
        options = merged_options(options)
        matcher = key_matcher(matcher, options)
        instrument(:delete_matched, matcher.inspect) do
          @map.each_key.count { |key| key.force_encoding(Encoding::UTF_8).match?(matcher) && @map.delete?(key) }
        end
      end

      # Adds to a number; an absent or expired one counts as 0.
      def increment(name, amount = 1, options = nil)
        count(:increment, name, amount, options)
      end

      def decrement(name, amount = 1, options = nil)
        count(:decrement, name, -amount, options)
      end

      def inspect
        "#<#{self.class.name} #{@map.inspect} options=#{@options.inspect}>"
      end

      private

      def count(operation, name, amount, options)
        options = merged_options(options)
        key = normalize_key(name, options)
        instrument(operation, name, amount: amount) do
          while true
            old = @map[key]
            entry = old && load_entry(old)
            entry = nil if entry&.expired?
            number = (entry ? entry.value.to_i : 0) + amount
            break number if counted(key, old, number, entry, options)
          end
        end
      end

      # Sets a counter if it has not changed meanwhile.
      def counted(key, old, number, entry, options)
        left = entry ? entry.expires_at && (entry.expires_at - Time.now.to_f) : options[:expires_in]
        fresh = Entry.new(number, expires_in: left, version: options[:version])
        @map.compare_exchange(key, old, serialize_entry(fresh), ttl: lifetime(fresh))
      end

      def load_entry(bytes)
        bytes && deserialize_entry(bytes)
      rescue ArgumentError, TypeError, NameError
        nil # Another application's, or an older version's: a miss.
      end

      def read_entry(key, **_options)
        load_entry(@map[key])
      end

      def write_entry(key, entry, unless_exist: false, race_condition_ttl: nil, expires_in: nil, **_options)
        bytes = serialize_entry(entry)
        ttl = lifetime(entry, race_condition_ttl, expires_in)
        return add_entry(key, bytes, ttl) if unless_exist

        @map.store(key, bytes, ttl: ttl)
        true
      rescue Commonhold::FullError, Commonhold::TooLargeError
        @map.delete?(key) # Better no entry than an old one.
        false
      end

      # Only one of all processes that find the same expired entry replaces it.
      def add_entry(key, bytes, ttl)
        old = @map[key]
        entry = load_entry(old)
        return false if entry && !entry.expired?

        @map.compare_exchange(key, old, bytes, ttl: ttl)
      end

      # An expired entry stays for a while: other processes get it while one recomputes it.
      def lifetime(entry, race_condition_ttl = nil, expires_in = nil)
        return nil unless entry.expires_at

        [entry.expires_at - Time.now.to_f + race_condition_ttl.to_f, expires_in.to_f, 0.001].max
      end

      def read_multi_entries(names, **options)
        names = names.to_h { |name| [normalize_key(name, options), name] }
        found = {}
        names.each_value.zip(@map.get_many(names.keys)) do |name, bytes|
          entry = load_entry(bytes)
          next unless entry

          if entry.expired?
            delete_entry(normalize_key(name, options), **options)
          elsif !entry.mismatched?(normalize_version(name, options))
            found[name] = entry.value
          end
        end
        found
      end

      def delete_entry(key, **_options)
        @map.delete?(key)
      end
    end
  end
end
