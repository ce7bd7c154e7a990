# SPDX-License-Identifier: MIT
"""Names are text of others: whatever they are, the page shows them as text, and does nothing that they say."""

import json
import os
import unittest

import browser
from support import CAIRN, LiveTest, Run, program

PID = "2000000001"  # beyond all that the kernel gives out
NAMES = ["<img src=x onerror=\"window.evil='html'\">", "</script><script>window.evil='script'</script>", "'+(window.evil='quote')+'",
         "${window.evil='template'}", "<svg/onload=window.evil='svg'>", "--><script>window.evil='comment'</script>",
         "e\x1b[31m\x07\x7f\u202eright\u200b\ufeffend", "]]>&lt;b&gt;&amp;", "x" * 100000]
BAD_UTF8 = b"bad\xff\xfe\xc3("


@unittest.skipUnless(browser.find(), "not installed: chromium")
class NamesTest(LiveTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        case = cls.for_all()
        names = f"/tmp/perf-{PID}.map"
        cls.addClassCleanup(lambda: os.path.exists(names) and os.unlink(names))
        cls.pages = []
        # A profile has places for three names of functions; each of them is shown as several texts, too.
        for at in range(0, len(NAMES), 2):
            some = [name.encode() for name in NAMES[at:at + 2]] + [BAD_UTF8]
            with open(names, "wb") as file:
                for place, name in enumerate((some * 6)[:6], 1):
                    file.write(b"%x 80 %s\n" % (place * 0x100, name))
            path = case.file(f"{at}.cairn")
            run = Run([program("hostile_profile"), path, PID, NAMES[at][:60]])
            case.assertEqual(run.status, 0, run.words)
            page = case.file(f"{at}.html")
            run = Run([CAIRN, "view", "--no-debuginfod", "-o", page, path])
            case.assertEqual(run.status, 0, run.words)
            cls.pages.append(page)
        cls.browser = cls.enterClassContext(browser.Browser())

    def test_nothing_that_they_say_is_done(self):
        shown = set()
        for path in self.pages:
            page = self.browser.open("file://" + path)
            for view in "1234567":
                page.press(view)
                page.move(200, 160)
                page.click(200, 160)
            page.press("t")
            page.press("1")
            page.evaluate("app.toggleFilters()")
            page.settle()
            self.assertFalse(page.evaluate("'evil' in window"))
            self.assertEqual(page.evaluate("document.scripts.length"), 1)
            self.assertEqual(page.evaluate("[...document.querySelectorAll('#app img, #app svg, #app script, #app iframe, #app a')].length"), 0)
            self.assertEqual(page.complaints(), [])
            self.assertEqual([address for address in page.requests() if not address.startswith("data:")], ["file://" + path])
            text = page.evaluate("document.body.innerText + document.title")
            self.assertFalse([letter for letter in text if letter in "\x1b\x07\x7f\u202e\u200b\ufeff"])
            self.assertLess(len(text), 40000)
            shown |= set(page.evaluate("Array.from({length: app.session.profile.functions}, (_, f) => app.session.name(f))"))
            # An address with anything in it is as harmless.
            page.evaluate("location.hash = '#view=<b>&metric=__proto__&search=%s&through=~(&zoom=9999999.x&hidden=-1.99999999"
                          "&function=%%23999999&apart=constructor&time=9.x&lanes=__proto__&depth=99'" % ("(" * 40))
            page.settle()
            self.assertEqual(page.complaints(), [])
            page.close()
        self.assertIn("e\\x1b[31m\\x07\\x7f\\u202eright\\u200b\\ufeffend", shown)
        self.assertIn(NAMES[0], shown)
        self.assertIn("bad\ufffd\ufffd\ufffd(", shown)
        self.assertTrue(any(name.startswith("xxxx") and name.endswith("…") and len(name) < 3000 for name in shown))

    def test_a_damaged_page_says_so(self):
        with open(self.pages[0], "rb") as file:
            data = file.read()
        begin = data.index(b'id="profile">') + len(b'id="profile">')
        end = data.index(b"</script>", begin)
        for number, content in enumerate((b"", b"AAAA", b"not base64!", data[begin:begin + 400], data[begin:end - 40] + b"A" * 40)):
            path = self.file(f"{number}.html", data[:begin] + content + data[end:])
            page = self.browser.open("about:blank")
            page.ask("Page.navigate", url="file://" + path)
            page.wait("document.readyState === 'complete' && document.querySelector('.loading')?.textContent.startsWith('This page cannot')")
            page.close()

    def test_text_is_not_in_the_page_as_it_is(self):
        for path in self.pages:
            with open(path, "rb") as file:
                self.assertNotIn(b"window.evil", file.read())

    def test_the_policy_forbids_other_scripts(self):
        page = self.browser.open("file://" + self.pages[0])
        page.evaluate("(() => { const made = document.createElement('script'); made.textContent = 'window.evil = 1'; document.body.append(made); "
                      "const image = document.createElement('div'); image.innerHTML = %s; document.body.append(image); })()" % json.dumps(NAMES[0]))
        page.settle()
        self.assertFalse(page.evaluate("'evil' in window"))
        self.assertTrue(any("Content Security Policy" in text for text in page.complaints()))
        page.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
