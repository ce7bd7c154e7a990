// SPDX-License-Identifier: MIT
// A large C++ program of the standard library's templates, made anew for each of many types: many functions, most of
// them inlined several levels deep. argv[1]: rounds.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

template <int N> struct Key {
    uint32_t value;
    bool operator<(const Key &other) const { return (value ^ N) < (other.value ^ N); }
    bool operator==(const Key &other) const { return value == other.value; }
};

namespace std {
template <int N> struct hash<Key<N>> {
    size_t operator()(const Key<N> &key) const { return key.value * (2654435761u + 2 * N); }
};
}

static uint32_t seed = 1;

static uint32_t next_random() { return seed = seed * 1664525 + 1013904223; }

template <int N> using Keys = std::vector<Key<N>>;

template <int N> [[gnu::noinline]] static Keys<N> make_keys()
{
    Keys<N> keys(200);
    std::generate(keys.begin(), keys.end(), [] { return Key<N>{next_random() >> 8}; });
    return keys;
}

template <int N> [[gnu::noinline]] static uint64_t in_maps(const Keys<N> &keys)
{
    std::map<Key<N>, uint64_t> ordered;
    std::unordered_map<Key<N>, uint64_t> hashed;
    for (const auto &key : keys) {
        ordered[key] += key.value;
        hashed[key] += key.value;
    }
    return std::accumulate(ordered.begin(), ordered.end(), uint64_t{0},
                           [&](uint64_t sum, const auto &one) { return sum + one.second + hashed[one.first]; });
}

template <int N> [[gnu::noinline]] static uint64_t sorted(Keys<N> keys)
{
    std::sort(keys.begin(), keys.end());
    std::stable_sort(keys.begin(), keys.end(), [](const auto &a, const auto &b) { return b < a; });
    std::nth_element(keys.begin(), keys.begin() + 50, keys.end());
    std::make_heap(keys.begin(), keys.end());
    return keys.front().value;
}

template <int N> [[gnu::noinline]] static uint64_t queued(const Keys<N> &keys)
{
    std::priority_queue<Key<N>> queue(keys.begin(), keys.end());
    std::set<Key<N>> seen;
    std::list<Key<N>> listed;
    uint64_t sum = 0;
    for (; !queue.empty(); queue.pop())
        if (seen.insert(queue.top()).second)
            listed.push_back(queue.top());
    listed.sort();
    for (const auto &key : listed)
        sum += key.value;
    return sum;
}

template <int N> [[gnu::noinline]] static uint64_t written(const Keys<N> &keys)
{
    std::ostringstream out;
    for (const auto &key : keys)
        out << key.value << ' ';
    std::istringstream in(out.str());
    std::vector<std::string> words;
    for (std::string word; in >> word;)
        words.push_back(std::move(word));
    std::sort(words.begin(), words.end(), [](const auto &a, const auto &b) { return a.size() + N < b.size() + N; });
    return words.size();
}

template <int N> [[gnu::noinline]] static uint64_t all_of()
{
    const Keys<N> keys = make_keys<N>();
    const std::function<uint64_t(const Keys<N> &)> each[] = {in_maps<N>, sorted<N>, queued<N>, written<N>};
    uint64_t sum = 0;
    for (const auto &one : each)
        sum += one(keys);
    return sum;
}

template <int... N> static uint64_t round_of(std::integer_sequence<int, N...>)
{
    return (all_of<N>() + ...);
}

int main(int argc, char **argv)
{
    uint64_t sum = 0;
    for (int rounds = argc > 1 ? std::atoi(argv[1]) : 10; rounds > 0; rounds--)
        sum += round_of(std::make_integer_sequence<int, 32>());
    std::cout << sum << std::endl;
}
