/** The files of a sandbox as a page: folders, texts, pictures and downloads. */
import { assert, layer } from "@effect/vitest"
import { FileNotFound, NotADirectory, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { FileSearch } from "@slipway/domain/files/schema/FileSearch"
import type { FileEntry } from "@slipway/domain/files/schema/FileTree"
import { Effect, Stream } from "effect"
import { visitor } from "../../../testing/Browser.ts"
import { ask, create, layer as http, type Reply, running } from "../../../testing/Harness.ts"

const HOSTILE = `</td><script>alert("1")</script>`
const ESCAPED = "&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"

const PNG = Buffer.from("89504e470d0a1a0a00", "hex")

const CONTENTS: Readonly<Record<string, Buffer>> = {
  "a.ts": Buffer.from(`const a = "${HOSTILE}\u202e"\n${"x".repeat(1_000_000)}\n`),
  "long.txt": Buffer.from("line\n".repeat(3_000)),
  "real.png": PNG,
  "fake.png": Buffer.from(`\0${HOSTILE}`),
  "real.svg": Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
  [`${HOSTILE.replaceAll("/", "")}.bin`]: Buffer.from("\0\u001b[31m")
}

const entry = (name: string, more: Partial<FileEntry> = {}): FileEntry => ({
  name,
  path: name,
  depth: 0,
  kind: "file",
  status: null,
  additions: 0,
  deletions: 0,
  size: CONTENTS[name]?.length ?? null,
  mtimeMs: 0,
  previousPath: null,
  ...more
})

/** The last search. */
let searched: FileSearch | null = null

const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  search: (_, search) => {
    searched = search
    const lines = [{ number: 7, text: `${HOSTILE}\u202e` }, { number: 2_000, text: "line" }]
    const files = [{ path: HOSTILE, lines: [], lineCount: 0 }, { path: "long.txt", lines, lineCount: 5 }]
    return Effect.succeed(search.text === "none" ? { files: [], isComplete: true } : { files, isComplete: false })
  },
  list: (_, path) =>
    path === "" || path === "src"
      ? Effect.succeed({
        directory: path,
        entries: [
          entry("src", { kind: "directory" }),
          entry(".env", { size: null }),
          entry("link", { kind: "symlink", size: null }),
          entry("gone.txt", { status: "deleted", size: null }),
          entry("\u202egnp.exe", { status: "untracked" }),
          ...Object.keys(CONTENTS).map((name) => entry(name))
        ],
        partialWarnings: [],
        scope: "all" as const
      })
      : CONTENTS[path] === undefined
      ? Effect.fail(new FileNotFound())
      : Effect.fail(new NotADirectory()),
  compare: (_, path) => {
    const bytes = CONTENTS[path] ?? Buffer.alloc(0)
    const binary = bytes.includes(0)
    const working = { content: binary ? null : bytes.toString(), hash: "0", ref: "working", size: bytes.length, binary }
    return Effect.succeed({ working, head: null, base: null })
  },
  open: (_, path) => {
    const bytes = CONTENTS[path]
    return bytes === undefined ? Effect.fail(new FileNotFound()) : Effect.succeed({ size: bytes.length, bytes: Stream.make(bytes) })
  }
}

layer(http({ trees }), { excludeTestServices: true })("the files of a sandbox", (it) => {
  it.effect("are listed, and lead to what may be looked at alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("lister")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/files`)
      assert.strictEqual(page.status, 200)
      const links = [...page.text.matchAll(/<th scope="row">(<a href="[^"]*">)?/gu)].map(([, link]) => link !== undefined)
      assert.deepStrictEqual(links, [true, false, false, false, true, ...Object.keys(CONTENTS).map(() => true)])
      assert.include(page.text, `href="/sandboxes/${id}/files?repo=acme%2Fshop&amp;path=src">src/</a>`)
      assert.include(page.text, ">⟨RIGHT-TO-LEFT OVERRIDE⟩gnp.exe</a>")
      assert.notInclude(page.text, "<script>alert")
      assert.include((yield* get(`/sandboxes/${id}/files?path=src`)).text, "acme/shop</a> / src</p>")
      const stranger = yield* visitor("stranger")
      for (const place of ["files", "files/download?path=a.ts", "files/picture?path=real.png"]) {
        assert.strictEqual((yield* stranger.get(`/sandboxes/${id}/${place}`)).status, 404, place)
        assert.strictEqual((yield* ask(`/sandboxes/${id}/${place}`)).status, 303, place)
      }
    }))

  it.effect("are found by a text in their names and contents, with links to lines, and nothing of them is taken for markup", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("searcher")
      const { id } = yield* running(key)
      const at = (fields: Readonly<Record<string, string>>) =>
        get(`/sandboxes/${id}/files?${new URLSearchParams({ repo: "acme/shop", ...fields })}`)
      assert.include((yield* at({})).text, `<label for="search">Find in files</label>`)
      const page = yield* at({ search: ` ${HOSTILE}`, case: "any" })
      assert.strictEqual(page.status, 200)
      assert.deepStrictEqual(searched, { text: HOSTILE, ignoreCase: true })
      assert.include(page.text, `value="${ESCAPED}"`)
      assert.include(page.text, `name="case" value="any" checked`)
      assert.include(page.text, `2 files found.\n<a href="/sandboxes/${id}/files?repo=acme%2Fshop&amp;path=">All files</a>`)
      const address = `/sandboxes/${id}/files?repo=acme%2Fshop&amp;path=long.txt`
      assert.include(page.text, `<li><a href="${address}#L7">7</a> <code>${ESCAPED}⟨RIGHT-TO-LEFT OVERRIDE⟩</code></li>`)
      assert.include(page.text, `<li><a href="${address}&amp;after=1980#L2000">2000</a>`)
      assert.include(page.text, "3 more lines.")
      assert.include(page.text, "Not everything was searched or is shown")
      assert.include(page.text, `path=${new URLSearchParams({ a: HOSTILE }).toString().slice(2)}">${ESCAPED}</a></h2>`)
      assert.notInclude(page.text, HOSTILE)
      assert.include((yield* at({ path: "long.txt", after: "1980" })).text, `<tr id="L2000"><td class="number">2000</td>`)
      const none = yield* at({ search: "none" })
      assert.include(none.text, "Nothing found for <code>none</code>.")
      assert.notInclude(none.text, "Not everything")
      for (const search of ["x".repeat(201), "a\nb"]) assert.strictEqual((yield* at({ search })).status, 400)
      assert.strictEqual((yield* (yield* visitor("stranger")).get(`/sandboxes/${id}/files?search=a`)).status, 404)
    }))

  it.effect("are found by a part of their name in a folder", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("finder")
      const { id } = yield* running(key)
      const found = (find: string) => get(`/sandboxes/${id}/files?${new URLSearchParams({ repo: "acme/shop", path: "", find })}`)
      const names = ({ text }: Reply) => [...text.matchAll(/<th scope="row">(?:<a [^>]*>)?([^<]*)/gu)].map(([, name]) => name)
      assert.deepStrictEqual(names(yield* found(" REAL. ")), ["real.png", "real.svg"])
      const none = yield* found(HOSTILE)
      assert.deepStrictEqual(names(none), [])
      assert.include(none.text, `No name in this folder contains ${ESCAPED}.`)
      assert.include(none.text, `name="find" type="search" value="${ESCAPED}"`)
      assert.strictEqual((yield* found("x".repeat(201))).status, 400)
    }))

  it.effect("complete a path by the names of its folder, those that begin with it first", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("completer")
      const { id } = yield* running(key)
      const names = (path: string, of = id) =>
        Effect.map(
          get(`/sandboxes/${of}/files/names?${new URLSearchParams({ path })}`),
          ({ status, text }) => [status, ...[...text.matchAll(/data-text="([^"]*)"/gu)].map(([, name]) => name)]
        )
      assert.deepStrictEqual(yield* names("RE"), [200, "real.png", "real.svg"])
      assert.deepStrictEqual(yield* names("s"), [200, "src/", "a.ts", "real.svg", `${ESCAPED.replaceAll("/", "")}.bin`])
      assert.deepStrictEqual(yield* names("src/a"), [200, "src/a.ts", "src/real.png", "src/fake.png", "src/real.svg",
        `src/${ESCAPED.replaceAll("/", "")}.bin`])
      for (const none of [".env", "gone", "none/x", "a.ts/x", "../", ".git/", "x".repeat(1_001), HOSTILE]) {
        assert.deepStrictEqual(yield* names(none), [200], none)
      }
      const both = (yield* running(key, { repos: [{ fullName: "acme/shop" }, { fullName: "acme/docs" }] })).id
      assert.deepStrictEqual(yield* names("", both), [200, "shop/", "docs/"])
      assert.deepStrictEqual(yield* names("docs/src/a.", both), [200, "docs/src/a.ts"])
      assert.deepStrictEqual(yield* names("other/a", both), [200])
      const stranger = yield* visitor("stranger")
      assert.strictEqual((yield* stranger.get(`/sandboxes/${id}/files/names?path=`)).status, 404)
      assert.strictEqual((yield* ask(`/sandboxes/${id}/files/names?path=`)).status, 303)
    }))

  it.effect("are shown as text, line by line, in colours, escaped and cut", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader")
      const { id } = yield* running(key)
      const page = yield* get(`/sandboxes/${id}/files?path=a.ts`)
      assert.strictEqual(page.status, 200)
      assert.include(page.text, `<td class="number">1</td><td class="line"><code><span class="keyword">const</span> a = `)
      assert.include(page.text, `<span class="string">&quot;${ESCAPED.replaceAll("&quot;", "")}`.slice(0, 40))
      assert.include(page.text, "⟨RIGHT-TO-LEFT OVERRIDE⟩")
      assert.include(page.text, "… 999600 more characters")
      assert.notInclude(page.text, "<script>alert")
      assert.isBelow(page.text.length, 20_000)
      const long = yield* get(`/sandboxes/${id}/files?path=long.txt`)
      assert.include(long.text, "Only lines 1 to 2000 are shown.")
      assert.include(long.text, `<td class="number">2000</td>`)
      assert.notInclude(long.text, `<td class="number">2001</td>`)
    }))

  it.effect("are pictures by their first bytes, which nothing can make a page of", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("looker")
      const { id } = yield* running(key)
      assert.include((yield* get(`/sandboxes/${id}/files?path=real.png`)).text, `<img class="picture" src="/sandboxes/${id}/files/picture?`)
      // An SVG is a document: its text is shown.
      const drawn = yield* get(`/sandboxes/${id}/files?path=real.svg`)
      assert.notInclude(drawn.text, "<img")
      assert.include(drawn.text, `<span class="keyword">&lt;svg</span>`)
      const picture = yield* get(`/sandboxes/${id}/files/picture?path=real.png`)
      assert.deepStrictEqual(
        ["content-type", "content-disposition", "content-security-policy", "x-content-type-options"].map((name) => picture.headers[name]),
        ["image/png", "inline", "default-src 'none'; sandbox; frame-ancestors 'none'", "nosniff"]
      )
      for (const path of ["fake.png", "real.svg", "a.ts", "none.png", ".env", "../x.png"]) {
        const refused = yield* get(`/sandboxes/${id}/files/picture?${new URLSearchParams({ path }).toString()}`)
        assert.include([403, 404], refused.status, path)
        assert.strictEqual(refused.headers["content-type"], "text/html; charset=utf-8", path)
      }
    }))

  it.effect("are downloads, whatever they hold and are called", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("saver")
      const { id } = yield* running(key)
      const name = `${HOSTILE.replaceAll("/", "")}.bin`
      const saved = yield* get(`/sandboxes/${id}/files/download?${new URLSearchParams({ path: name }).toString()}`)
      assert.strictEqual(saved.status, 200)
      assert.strictEqual(saved.text, "\0\u001b[31m")
      assert.strictEqual(saved.headers["content-type"], "application/octet-stream")
      assert.match(
        String(saved.headers["content-disposition"]),
        /^attachment; filename="[\w.]+\.bin"; filename\*=UTF-8''[\w%.-]+$/u
      )
      assert.strictEqual(saved.headers["content-security-policy"], "default-src 'none'; sandbox; frame-ancestors 'none'")
      for (const path of [".env", ".git/config", "none", "../../etc/passwd", ""]) {
        assert.include([403, 404], (yield* get(`/sandboxes/${id}/files/download?${new URLSearchParams({ path }).toString()}`)).status, path)
      }
    }))

  it.effect("of a sandbox that does not run are said not to be there, in words", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("early")
      const id = yield* create(key)
      for (const place of ["files", "files/download?path=a.ts", "files/picture?path=real.png"]) {
        const page = yield* get(`/sandboxes/${id}/${place}`)
        assert.strictEqual(page.status, 409, place)
        assert.include(page.text, "No files were saved.")
      }
      assert.strictEqual((yield* get(`/sandboxes/${id}/files?repo=acme/other`)).status, 404)
    }))
})
