// SPDX-License-Identifier: MIT
// C++ of the usual kind: virtual calls, containers, strings, closures, now and then an exception.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
    virtual std::string name() const = 0;
};

struct Rectangle : Shape {
    double width, height;
    Rectangle(double w, double h) : width(w), height(h) {}
    double area() const override { return width * height; }
    std::string name() const override { return "rectangle"; }
};

struct Circle : Shape {
    double radius;
    explicit Circle(double r) : radius(r) {}
    double area() const override { return 3.141592653589793 * radius * radius; }
    std::string name() const override { return "circle"; }
};

struct Group : Shape {
    std::vector<std::unique_ptr<Shape>> parts;
    double area() const override
    {
        double sum = 0;
        for (const auto &part : parts)
            sum += part->area();
        return sum;
    }
    std::string name() const override
    {
        if (parts.empty())
            throw std::runtime_error("nothing");
        return "group of " + parts.front()->name();
    }
};

static std::unique_ptr<Shape> make(unsigned &state, int depth)
{
    state = state * 1664525 + 1013904223;
    const unsigned kind = (state >> 16) % 10;
    if (depth > 0 && kind < 3) {
        auto group = std::make_unique<Group>();
        for (unsigned i = 0; i < (state >> 20) % 5; i++)
            group->parts.push_back(make(state, depth - 1));
        return group;
    }
    if (kind < 6)
        return std::make_unique<Rectangle>(kind, depth + 1);
    return std::make_unique<Circle>(kind);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 40;
    unsigned state = 1;
    double sum = 0;
    std::map<std::string, long> names;
    for (int round = 0; round < rounds; round++) {
        std::vector<std::unique_ptr<Shape>> shapes;
        for (int i = 0; i < 10000; i++)
            shapes.push_back(make(state, 4));
        std::function<bool(const std::unique_ptr<Shape> &, const std::unique_ptr<Shape> &)> smaller =
            [](const auto &left, const auto &right) { return left->area() < right->area(); };
        std::stable_sort(shapes.begin(), shapes.end(), smaller);
        for (const auto &shape : shapes) {
            sum += shape->area();
            try {
                names[shape->name()]++;
            } catch (const std::runtime_error &error) {
                names[error.what()]++;
            }
        }
    }
    std::printf("%.1f %zu\n", sum, names.size());
    return 0;
}
