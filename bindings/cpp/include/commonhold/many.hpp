// Many at once: slices of the elements of a range, for C.
#ifndef COMMONHOLD_MANY_HPP
#define COMMONHOLD_MANY_HPP

#include <commonhold/bytes.hpp>

#include <forward_list>

namespace commonhold::detail {

// Elements whose bytes stay where they are when the element itself ends, or that do not end:
// references, views, pointers.
template <class Element>
concept lasting = std::ranges::borrowed_range<Element> || std::is_pointer_v<std::remove_cvref_t<Element>> ||
                  (std::is_lvalue_reference_v<Element> && std::convertible_to<Element, std::string_view>);

// The type of a member of a range's element: it lasts as long as the element, unless it is a
// reference itself.
template <class Element, class Member>
using member = std::conditional_t<std::is_lvalue_reference_v<Element>, Member &, Member &&>;

// Makes slices of a range's elements, for use after the last of them was visited. Copies the bytes
// of elements that end before: values, and the elements of a single-pass range, because each of
// these may end with the next.
template <class Range>
class slicer {
public:
    template <class Element>
    ch_slice slice(bytes_in element) {
        if constexpr (std::ranges::forward_range<Range> && lasting<Element>) return element.slice();
        else return bytes_in(copies_.emplace_front(as_text(element.slice()))).slice();
    }

private:
    std::forward_list<std::string> copies_;
};

} // namespace commonhold::detail

#endif
