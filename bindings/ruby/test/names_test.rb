# frozen_string_literal: true

require_relative "helper"

# The names that docs/reference/languages.md promises for Ruby exist.
class NamesTest < Minitest::Test
  PAGE = File.expand_path("../../../docs/reference/languages.md", __dir__)
  COLUMN = 6

  def promised
    rows = File.readlines(PAGE, encoding: "UTF-8").grep(/\A\|/).map { |line| line.split("|") }
    rows.flat_map { |row| row[COLUMN].scan(/`([^`]+)`/) }.flatten.uniq
  end

  # The missing parts of a promised name; nil if it is complete.
  def missing(name)
    parts = name.match(/\A(\w+)([#.])([^(]+)(?:\((\w+):\))?\z/)
    return "the form of a name" unless parts

    owner, kind, member, keyword = parts.captures
    return owner unless owner == "Commonhold" || Commonhold.const_defined?(owner, false)

    place = owner == "Commonhold" ? Commonhold : Commonhold.const_get(owner)
    return member unless kind == "#" ? place.method_defined?(member) : place.respond_to?(member)

    method = kind == "#" ? place.instance_method(member) : place.method(member)
    keyword if keyword && method.parameters.none? { |_, parameter| parameter.to_s == keyword }
  end

  def test_promised_names_exist
    assert_operator promised.size, :>, 80
    assert_empty(promised.select { |name| missing(name) })
  end

  def test_made_up_names_are_noticed
    assert_nil missing("Map#set")
    assert_nil missing("Map#set(ttl:)")
    assert_equal "set_with_tll", missing("Map#set_with_tll")
    assert_equal "tll", missing("Map#set(tll:)")
    assert_equal "Mapp", missing("Mapp#set")
    assert_equal "opened", missing("Commonhold.opened")
    assert_equal "the form of a name", missing("Map::set")
  end
end
