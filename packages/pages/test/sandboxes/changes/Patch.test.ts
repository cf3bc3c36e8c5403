import { assert, describe, it } from "@effect/vitest"
import { atOnce } from "../../../src/html/Html.ts"
import * as ChangedWords from "../../../src/sandboxes/changes/ChangedWords.ts"
import * as Patch from "../../../src/sandboxes/changes/Patch.ts"

const read = (text: string, extent: Patch.Extent = { lines: Infinity }) => atOnce(Patch.read(Buffer.from(text), extent))

describe("a patch of git", () => {
  it("tells of each file its names, how it changed, and its lines with their numbers", () => {
    const [changed, renamed, added, deleted, ...rest] = read(`diff --git a/x.ts b/x.ts
index 1..2 100644
--- a/x.ts
+++ b/x.ts
@@ -10,3 +10,3 @@ function f
 one
-two
+2
\\ No newline at end of file
@@ -30 +30,2 @@
 ten
+--- a/fake
diff --git a/was b/is
similarity index 90%
rename from was
rename to is
diff --git a/a b.txt b/a b.txt
new file mode 100644
--- /dev/null
+++ b/a b.txt\t
@@ -0,0 +1 @@
+x
diff --git a/old b/old
deleted file mode 100644
--- a/old
+++ /dev/null
@@ -1 +0,0 @@
-x
`)
    assert.deepStrictEqual(changed, {
      path: "x.ts",
      previousPath: null,
      status: "modified",
      blobs: "1..2 100644",
      additions: 2,
      deletions: 1,
      left: 0,
      note: null,
      hunks: [
        [
          { kind: "context", before: 10, after: 10, text: "one\n" },
          { kind: "removed", before: 11, after: null, text: "two\n" },
          { kind: "added", before: null, after: 11, text: "2" }
        ],
        [
          { kind: "context", before: 30, after: 30, text: "ten\n" },
          { kind: "added", before: null, after: 31, text: "--- a/fake\n" }
        ]
      ]
    })
    assert.deepStrictEqual([renamed?.path, renamed?.previousPath, renamed?.status, renamed?.hunks], ["is", "was", "renamed", []])
    assert.deepStrictEqual([added?.path, added?.status, deleted?.path, deleted?.status], ["a b.txt", "added", "old", "deleted"])
    assert.deepStrictEqual(rest, [])
  })

  it("tells what has no lines by name: binary, protected and too large files", () => {
    const long = `diff --git a/l b/l\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n+${"x".repeat(600_000)}\n`
    const found = read(`diff --git a/i.png b/i.png
Binary files a/i.png and b/i.png differ
# Protected file added: .env
# Protected file deleted: "a/\\303\\251.env"
${long}diff --git a/mode b/mode
old mode 100644
new mode 100755
`)
    assert.deepStrictEqual(found.map(({ hunks, note, path }) => [path, note, hunks.length]), [
      ["i.png", "binary", 0],
      [".env", "protected", 0],
      ["a/é.env", "protected", 0],
      ["l", "large", 0],
      ["mode", null, 0]
    ])
  })

  it("has names that git puts in quotes, byte by byte", () => {
    const found = read(String.raw`diff --git "a/\303\251\t\"\\.txt" "b/\303\251\t\"\\.txt"
Binary files "a/\303\251\t\"\\.txt" and "b/\303\251\t\"\\.txt" differ
diff --git "a/\342\200\256" "b/\342\200\256"
--- "a/\342\200\256"
+++ "b/\342\200\256"
@@ -1 +1 @@
+x
`)
    assert.deepStrictEqual(found.map(({ path }) => path), ["é\t\"\\.txt", "\u202e"])
  })

  it("is read as far as it is wanted: so many files, so many lines of each, and all lines of one", () => {
    const lines = " same\n-a\n+b\n\\ No newline at end of file\n@@ -9 +9,2 @@\n x\n+y\n"
    const section = (name: string) => `diff --git a/${name} b/${name}\n--- a/${name}\n+++ b/${name}\n@@ -1,2 +1,2 @@\n${lines}`
    const found = read(["1", "2", "3"].map(section).join(""), { files: 2, lines: 2, whole: "2" })
    assert.deepStrictEqual(
      found.map((
        { additions, deletions, hunks, left, path }
      ) => [path, additions, deletions, left, ...hunks.map((hunk) => hunk.map(({ text }) => text).join(""))]),
      [["1", 2, 1, 3, "same\na\n"], ["2", 2, 1, 0, "same\na\nb", "x\ny\n"]]
    )
  })

  it("has no files if it cannot be read", () => {
    assert.deepStrictEqual([read(""), read("x\n"), read("@@ -1 +1 @@\n+x\n")], [[], [], []])
  })
})

describe("the words of a changed line", () => {
  const marked = (before: string, after: string) => {
    const found = ChangedWords.compare(before, after)
    return found === null ? null : [
      found.removed.map(([start, end]) => before.slice(start, end)),
      found.added.map(([start, end]) => after.slice(start, end))
    ]
  }

  it("are marked where some of them stayed", () => {
    assert.deepStrictEqual(marked("const a = one(x)", "const a = two(x, y)"), [["one"], ["two", ", y"]])
    assert.deepStrictEqual(marked("same", "same"), [[], []])
    assert.deepStrictEqual(marked("a 👩 b c", "a 👨 b c"), [["👩"], ["👨"]])
  })

  it("are not marked in a line that is a new one, or too long to compare", () => {
    assert.isNull(marked("return lamp", "import chair from shop"))
    assert.isNull(marked("", "new"))
    assert.isNull(marked("a ".repeat(500), "b ".repeat(500)))
  })
})
