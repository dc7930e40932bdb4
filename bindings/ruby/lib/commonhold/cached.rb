# frozen_string_literal: true

require "securerandom"

module Commonhold
  # Results that all processes share (Hold#cached). One caller at a time computes each result. Other
  # callers of the same key wait for that result, so there is no stampede. If the computing process
  # dies, or its block raises, another caller takes over at once.
  #
  #   pages = hold.cached("pages", ttl: 60)
  #   pages.fetch("/index") { render("/index") }
  class Cached
    # How long to sleep between two looks for a result, at first and at most.
    FIRST = 0.0005
    LAST = 0.02
    private_constant :FIRST, :LAST

    # The map with the results, in cache mode.
    # @return [Map]
    attr_reader :map

    # @private
    def initialize(hold, name, ttl:, wait:, **options)
      @hold = hold
      @map = hold.map(name, mode: :cache, **options)
      @computing = hold.map("#{name}.computing") # Not a cache, so no turn is evicted.
      @ttl = ttl
      @wait = wait
    end

    # Returns the result for a key; both are Strings. If there is none, calls the block, and stores
    # its result.
    def fetch(key)
      found = @map[key]
      return found if found

      turn = Turn.new(@hold, @computing, key, @wait)
      pause = FIRST
      until turn.mine?
        sleep(pause)
        pause = [pause * 1.5, LAST].min
        found = @map[key]
        return found if found
      end
      compute(turn, key) { yield key }
    end

    # Calls the block, stores its result in place of the old one, and returns it.
    def refresh(key)
      value = yield key
      @map.store(key, value, ttl: @ttl)
      value
    end

    # Forgets a result; returns whether there was one.
    def forget(key)
      @map.delete?(key)
    end

    private

    def compute(turn, key, &block)
      @map[key] || refresh(key, &block) # It may have come just before the turn.
    ensure
      turn.end
    end

    # A wait for the turn to compute, and the turn itself: a pair, whose value names the participants
    # of the process, and is different for each turn.
    class Turn
      LOOK = 0.05

      def initialize(hold, computing, key, wait)
        @hold = hold
        @computing = computing
        @key = key
        @token = "#{mine.join('+')} #{SecureRandom.hex(8)}".b
        @look = 0.0
        @ends = now + wait
      end

      # Takes the turn if it is free, or if its owner is dead, or if the wait is over: the owner
      # continues then, too.
      def mine?
        return true if @computing.add(@key, @token)
        return (@computing[@key] = @token) && true if now >= @ends
        return false if now < @look

        @look = now + LOOK
        owner = @computing[@key]
        !owner.nil? && !lives?(owner) && @computing.compare_exchange(@key, owner, @token)
      end

      def end
        @computing.compare_exchange(@key, @token, nil)
      end

      private

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def alive
        @hold.participants.select { |one| one["alive"] }
      end

      def number(participant)
        participant.values_at("slot", "generation").join(".")
      end

      # A process becomes a participant with its first writing operation.
      def mine
        2.times do
          found = alive.select { |one| one["pid"] == Process.pid }
          return found.map { |one| number(one) } unless found.empty?

          @hold.sweep
        end
        []
      end

      def lives?(owner)
        owners = owner.split.first.split("+")
        alive.any? { |one| owners.include?(number(one)) }
      end
    end
    private_constant :Turn
  end
end
