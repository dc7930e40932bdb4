# frozen_string_literal: true

module Commonhold
  # A list as the value of a key (Map#list). Each change is one atomic step, and writes the whole
  # list; for lists of up to a few kilobytes. An absent key is an empty list.
  class List
    include Enumerable

    # @private
    def initialize(map, key)
      @map = map
      @key = Map.string(key).dup.freeze
    end

    # Adds at the end; returns the list.
    def push(*elements)
      elements.each { |element| @map._list_push(@key, element) }
      self
    end

    def <<(element)
      push(element)
    end

    # Adds at the beginning; returns the list.
    def unshift(*elements)
      elements.reverse_each { |element| @map._list_unshift(@key, element) }
      self
    end

    # Removes and returns the last element, or nil.
    def pop
      @map._list_pop(@key)
    end

    # Removes and returns the first element, or nil.
    def shift
      @map._list_shift(@key)
    end

    # The number of elements.
    def size
      @map._list_len(@key)
    end
    alias length size

    def empty?
      size.zero?
    end

    # Yields the elements, as they were at one moment.
    def each(&block)
      return enum_for(:each) { size } unless block

      to_a.each(&block)
      self
    end

    def to_a
      @map._list_all(@key)
    end
  end
end
