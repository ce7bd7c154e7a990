# SPDX-License-Identifier: MIT
"""The types of the viewer's modules agree, and they become one page."""

import os
import shutil
import subprocess
import tempfile
import unittest

WEB = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "web")


class Types(unittest.TestCase):
    @unittest.skipUnless(shutil.which("tsc"), "not installed: tsc")
    def test_types(self):
        run = subprocess.run(["tsc", "--project", WEB], capture_output=True, text=True, timeout=250, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, ""))

    def bundle(self, **changes):
        """What the bundler says of modules of which some were changed."""
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "web")
            shutil.copytree(WEB, copy)
            for name, text in changes.items():
                with open(os.path.join(copy, name + ".js"), "a", encoding="utf-8") as file:
                    file.write(text)
            run = subprocess.run([os.path.join(WEB, "bundle"), copy, os.path.join(folder, "page.h")], capture_output=True, text=True,
                                 check=False)
            return run.returncode, run.stderr

    def test_the_bundler_refuses_what_would_break(self):
        self.assertEqual(self.bundle(), (0, ""))
        for changes, complaint in (({"tree": "function safe() {}\n"}, "safe is a name in"),
                                   ({"tree": "const some = 1, ROW = 2;\n"}, "ROW is a name in"),
                                   ({"tree": 'import { nothing } from "./names.js";\n'}, "does not export"),
                                   ({"names": 'import { Tree } from "./tree.js";\n', "profile": 'import { safe } from "./names.js";\n'},
                                    "import each other"),
                                   ({"tree": "// </script>\n"}, "ends itself")):
            status, words = self.bundle(**changes)
            self.assertEqual(status, 1)
            self.assertIn(complaint, words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
