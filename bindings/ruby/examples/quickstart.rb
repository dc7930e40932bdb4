# frozen_string_literal: true

require "commonhold"

Commonhold.open("quickstart-#{Process.pid}", delete_on_last_exit: true) do |shop|
  stock = shop.map("stock", encoding: "UTF-8")
  stock["apple"] = "12 crates"
  stock.set_many({ "pear" => "3 crates", "quince" => "none" })
  stock.each { |fruit, amount| puts "#{fruit}: #{amount}" }

  # Any process, any language: here a child.
  fork { stock.increment("sold", 5) }
  Process.wait
  puts "sold: #{stock.increment('sold', 0)}"
end
