import { createHash } from "node:crypto"
import { answered, refused } from "../client/Client.ts"
import {
  count,
  filled,
  finite,
  fits,
  flag,
  holds,
  is,
  type Json,
  listOf,
  nullOr,
  object,
  same,
  type Shape,
  Skip,
  text
} from "../client/Expect.ts"
import { knows } from "../client/Names.ts"
import { CANARY, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("files", "docs/decisions/6")
const running = { needs: ["repo"] } as const

const entry: Shape = object({
  name: filled,
  path: filled,
  depth: count,
  kind: is("file", "directory", "symlink", "submodule"),
  status: is("added", "deleted", "modified", "renamed", "untracked", null),
  additions: count,
  deletions: count,
  size: nullOr(count),
  mtimeMs: nullOr(finite),
  previousPath: nullOr(text)
})
const listing: Shape = object({
  directory: text,
  entries: listOf(entry),
  partialWarnings: listOf(text),
  scope: is("all", "changed")
})

const query = (name: string, value: string | undefined) => value === undefined ? "" : `?${name}=${encodeURIComponent(value)}`
const tree = async (world: World, directory?: string) => world.get(await world.worked(), `/files/tree${query("directory", directory)}`)
const download = async (world: World, path: string) => world.get(await world.worked(), `/files/download${query("path", path)}`)
const content = async (world: World, path: string) => world.get(await world.worked(), `/files/content${query("path", path)}`)

const entries = async (world: World, directory?: string) => {
  const { json } = answered(await tree(world, directory), 200, `a tree of ${directory ?? "the root"}`)
  return new Map(json.at("entries").items.map((item): readonly [string, Json] => [item.at("name").string, item]))
}

/** The git blob id of these bytes. */
const blobId = (bytes: string, hash: "sha1" | "sha256") =>
  createHash(hash).update(`blob ${Buffer.byteLength(bytes)}\0${bytes}`).digest("hex")

const everywhere = async (world: World, path: string, status: number, code: string) => {
  refused(await tree(world, path), status, code, `a tree of ${JSON.stringify(path)}`)
  refused(await download(world, path), status, code, `a download of ${JSON.stringify(path)}`)
  refused(await content(world, path), status, code, `content of ${JSON.stringify(path)}`)
}

const PROTECTED = [
  ".git",
  ".git/config",
  ".GIT/config",
  "a/.git/HEAD",
  ".env",
  ".ENV",
  ".env.local",
  "a/b/.env",
  "prod.env",
  ".envrc",
  ".direnv/x",
  ".dev.vars",
  ".npmrc",
  ".netrc",
  ".git-credentials",
  "opencode.json",
  "opencode.jsonc",
  "tui.json",
  "tui.jsonc",
  ".opencode/x",
  ".codex/config.toml",
  ".agents/x",
  ".codex-plugin/x",
  ".claude/settings.json",
  ".claude.json",
  ".mcp.json",
  "CLAUDE.local.md",
  ".claude-plugin/x",
  ".worktreeinclude",
  ".grok/x",
  ".grok-plugin/x",
  ".lsp.json",
  ".cursor/hooks.json",
  ".cursor/mcp.json"
]
const CONTENT = [
  ".env.example",
  ".env.sample",
  ".env.template",
  ".env.dist",
  "AGENTS.override.md",
  "CLAUDE.md",
  ".cursor/rules",
  "x/.gitmodules",
  ".github/x",
  "environment"
]

/** The rules of this file. */
export const rules = [
  rule("tree", "A listing has directory, entries, partialWarnings and scope, and nothing else.", async (world) => {
    const { json } = answered(await tree(world), 200, "a tree")
    fits(json.value, listing, "")
    same([json.at("directory").value, json.at("scope").value], ["", "all"], "directory and scope")
    fits(answered(await tree(world, "conformance"), 200, "a tree").json.value, listing, "")
  }, { ...running, source: "docs/interface.md 2.6" }),
  rule("tree-root", "No directory and an empty one are the root.", async (world) => {
    const names = [...(await entries(world)).keys()]
    same([...(await entries(world, "")).keys()], names, "entries of the empty directory")
    holds(names.includes("conformance"), "the directory that the agent made", names)
  }, running),
  rule("tree-order", "Directories come first, then byte order of name.", async (world) => {
    const names = [...await entries(world, "conformance")].map(([name, item]) =>
      `${item.at("kind").value === "directory" ? 0 : 1}${Buffer.from(name).toString("hex")}`
    )
    same(names, [...names].sort(), "order")
    holds(names.length > 8, "the files that the agent made", names.length)
  }, running),
  rule("tree-git", ".git is never listed.", async (world) => {
    same((await entries(world)).has(".git"), false, "whether .git is listed")
  }, running),
  rule(
    "tree-depth",
    "path is relative to the repository, depth its slashes, and directory normalised.",
    async (world) => {
      const { json } = answered(await tree(world, "./conformance//dir/../dir/"), 200, "an untidy directory")
      same(json.at("directory").value, "conformance/dir", "directory")
      const [file] = json.at("entries").items
      same([file?.at("name").value, file?.at("path").value, file?.at("depth").value], [
        "a.txt",
        "conformance/dir/a.txt",
        2
      ], "name, path and depth")
    },
    running
  ),
  rule("tree-untracked", "A new file is untracked, with its size and lines.", async (world) => {
    const file = (await entries(world, "conformance")).get("new.txt")
    same(["kind", "status", "size", "additions", "deletions", "previousPath"].map((name) => file?.at(name).value), [
      "file",
      "untracked",
      CANARY.length + 1,
      1,
      0,
      null
    ], "the file")
  }, running),
  rule("tree-modified", "A changed file is modified, with its lines.", async (world) => {
    const file = [...(await entries(world)).values()].find((item) => item.at("status").value === "modified")
    same(
      [file?.at("kind").value, file?.at("additions").value],
      ["file", 1],
      "kind and additions of a file with a line more"
    )
  }, running),
  rule("tree-protected", "Protected names are listed, without a size.", async (world) => {
    const file = (await entries(world, "conformance")).get(".env")
    same([file?.at("kind").value, file?.at("size").value], ["file", null], "kind and size of .env")
  }, running),
  rule("tree-links", "Links are listed as symlink, without a size.", async (world) => {
    const link = (await entries(world, "conformance")).get("link")
    same([link?.at("kind").value, link?.at("size").value], ["symlink", null], "kind and size of a link")
  }, running),
  rule("tree-file", "A tree of a file is 400 not_a_directory.", async (world) => {
    refused(await tree(world, "conformance/new.txt"), 400, "not_a_directory", "a tree of a file")
  }, running),
  rule("missing", "What is not there is 404 file_not_found.", async (world) => {
    const path = "conformance/missing/file"
    refused(await tree(world, path), 404, "file_not_found", "a tree of nothing")
    refused(await download(world, path), 404, "file_not_found", "a download of nothing")
  }, running),
  rule("traversal", "A path that leaves the repository is 400 invalid_path.", async (world) => {
    for (const path of ["..", "../x", "/etc/passwd", "conformance/../../x", "a/../../etc/passwd", "/"]) {
      await everywhere(world, path, 400, "invalid_path")
    }
  }, running),
  rule("nul", "A path with NUL is 400 invalid_path.", async (world) => {
    await everywhere(world, "conformance/new.txt\0.png", 400, "invalid_path")
  }, running),
  rule("normalised", "Dots within the repository are resolved.", async (world) => {
    same(
      answered(await download(world, "./conformance//dir/../new.txt"), 200, "an untidy path").text,
      `${CANARY}\n`,
      "bytes"
    )
  }, running),
  rule(
    "protected",
    "Protected names are 403 file_protected in any segment and case, whether or not they are there.",
    async (world) => {
      const { contract } = world.options
      const paths = contract ? [".git", ".git/config", "a/.git/HEAD", ".env", "a/b/.env"] : PROTECTED
      for (const path of paths) refused(await download(world, path), 403, "file_protected", `download of ${path}`)
      if (contract) return
      for (const path of [".git", ".claude/skills", ".env"]) await everywhere(world, path, 403, "file_protected")
      refused(
        await download(world, "conformance/x/../.env"),
        403,
        "file_protected",
        "download of conformance/x/../.env"
      )
    },
    { ...running, source: "docs/interface.md 4.11" }
  ),
  rule("not-protected", "Samples and instructions for agents are content.", async (world) => {
    same(
      answered(await download(world, "conformance/.env.example"), 200, ".env.example").text,
      "A=\n",
      "bytes of .env.example"
    )
    same(answered(await download(world, "conformance/AGENTS.md"), 200, "AGENTS.md").text, "ok\n", "bytes of AGENTS.md")
    for (const path of CONTENT) {
      refused(await download(world, `none/${path}`), 404, "file_not_found", `download of none/${path}`)
    }
  }, running),
  rule("no-links", "Links are not followed: 403 file_protected.", async (world) => {
    refused(await download(world, "conformance/link"), 403, "file_protected", "download of a link")
    refused(await content(world, "conformance/link"), 403, "file_protected", "content of a link")
  }, running),
  rule("no-hard-links", "A file with another name is 403 file_protected.", async (world) => {
    refused(await download(world, "conformance/hard-1"), 403, "file_protected", "download of a hard link")
  }, running),
  rule("no-devices", "What is no regular file is 403 file_protected.", async (world) => {
    refused(await download(world, "conformance/fifo"), 403, "file_protected", "download of a FIFO")
  }, running),
  rule("directory", "A download of a directory is 400 is_directory.", async (world) => {
    refused(await download(world, "conformance/dir"), 400, "is_directory", "download of a directory")
    refused(await content(world, "conformance/dir"), 400, "is_directory", "content of a directory")
  }, running),
  rule("bytes", "A download gives the bytes.", async (world) => {
    const reply = answered(await download(world, "conformance/binary.bin"), 200, "a download")
    same(reply.bytes.toString("hex"), "010002", "bytes")
    same(
      answered(await download(world, "conformance/empty"), 200, "a download of nothing").bytes.length,
      0,
      "bytes of an empty file"
    )
  }, running),
  rule(
    "headers",
    "A download has its exact length, is octet-stream, takes no ranges, has no ETag and is not stored.",
    async (world) => {
      const reply = answered(await download(world, "conformance/new.txt"), 200, "a download")
      const wanted = {
        "content-type": "application/octet-stream",
        "content-length": String(CANARY.length + 1),
        "accept-ranges": "none",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        etag: undefined
      }
      same(Object.fromEntries(Object.keys(wanted).map((name) => [name, reply.header(name)])), wanted, "headers:")
    },
    running
  ),
  rule("range", "Range is ignored.", async (world) => {
    const reply = await world.get(await world.worked(), "/files/download?path=conformance/new.txt", {
      headers: { range: "bytes=0-1" }
    })
    same(answered(reply, 200, "a range").text, `${CANARY}\n`, "bytes")
  }, running),
  rule("disposition", "A download is an attachment; its name is quoted safely and given in UTF-8.", async (world) => {
    const plain = answered(await download(world, "conformance/new.txt"), 200, "a download")
    same(
      plain.header("content-disposition"),
      "attachment; filename=\"new.txt\"; filename*=UTF-8''new.txt",
      "Content-Disposition"
    )
    const odd = answered(
      await download(world, "conformance/na\u00efve \"q\" (1).txt"),
      200,
      "a download of an odd name"
    )
    same(
      odd.header("content-disposition"),
      "attachment; filename=\"na__ve _q_ _1_.txt\"; filename*=UTF-8''na%C3%AFve%20%22q%22%20%281%29.txt",
      "Content-Disposition"
    )
  }, running),
  rule("too-large", "A download of 100 MiB is given, one byte more is 413 file_too_large.", async (world) => {
    if (!knows(world.options.names, "shell")) throw new Skip("the server's agent makes no file of 100 MiB, without a directive for shell")
    refused(await download(world, "conformance/big/over"), 413, "file_too_large", "100 MiB and a byte")
    const most = await world.get(await world.worked(), "/files/download?path=conformance/big/most", {
      headersOnly: true
    })
    same([most.status, most.header("content-length")], [200, "104857600"], "status and length of 100 MiB")
  }, { ...running, source: "docs/interface.md 8" }),
  rule("path-length", "directory has at most 1000 characters, path 1 to 1000.", async (world) => {
    const box = await world.worked()
    const path = (length: number) => "p/".repeat(500).slice(0, length - 1) + "x"
    refused(await tree(world, path(1000)), 404, "file_not_found", "a directory of 1000 characters")
    refused(await tree(world, path(1000) + "x"), 400, "invalid_request", "one of 1001")
    refused(await download(world, path(1000)), 404, "file_not_found", "a path of 1000 characters")
    refused(await download(world, path(1000) + "x"), 400, "invalid_request", "one of 1001")
    refused(await download(world, ""), 400, "invalid_request", "an empty path")
    refused(await world.get(box, "/files/download"), 400, "invalid_request", "no path")
  }, { ...running, source: "docs/decisions/12" }),
  rule("not-running", "Files of a sandbox that does not run are 409 sandbox_not_running.", async (world) => {
    const { box } = await world.ended()
    for (const path of ["tree", "download?path=a", "content?path=a"]) {
      refused(await world.get(box, `/files/${path}`), 409, "sandbox_not_running", path)
    }
  }, running),
  rule(
    "repo",
    "repo names the repository in any case; a repository that is not in the sandbox is 404 repo_not_found.",
    async (world) => {
      const box = await world.worked()
      const repo = encodeURIComponent(world.repo)
      answered(
        await world.get(box, `/files/tree?repo=${repo.toUpperCase().replace("%2F", "/")}`),
        200,
        "the repository in upper case"
      )
      refused(await world.get(box, "/files/tree?repo=conformance/other"), 404, "repo_not_found", "another repository")
      refused(await world.get(box, "/files/tree?repo=nonsense"), 400, "invalid_request", "no repository")
    },
    running
  ),
  rule("repo-required", "With several repositories repo is needed: 400 repo_required.", async (world) => {
    const box = await world.several()
    for (const path of ["tree", "download?path=second.txt", "content?path=second.txt"]) {
      refused(await world.get(box, `/files/${path}`), 400, "repo_required", path)
    }
    const second = await world.get(box, `/files/download?path=second.txt&repo=${encodeURIComponent(world.secondRepo)}`)
    same(answered(second, 200, "a download from the second").text, "2\n", "bytes")
  }, { needs: ["repo", "second-repo"] }),
  rule(
    "content",
    "Content is {path, repo, status, binary, size, previousPath, editable, editReason, working, head, base, reviewHead}, " +
      "each version null or {content, text, hash, ref, size, binary}.",
    async (world) => {
      const version = nullOr(object({
        content: nullOr(text),
        text: nullOr(text),
        hash: filled,
        ref: filled,
        size: count,
        binary: flag
      }))
      const { json } = answered(await content(world, "conformance/./new.txt"), 200, "content")
      fits(
        json.value,
        object({
          path: is("conformance/new.txt"),
          repo: is(world.repo),
          status: is("untracked", "added"),
          binary: is(false),
          size: is(CANARY.length + 1),
          previousPath: is(null),
          editable: is(false),
          editReason: filled,
          working: version,
          head: version,
          base: version,
          reviewHead: version
        }),
        ""
      )
      const working = json.at("working")
      same([working.at("content").value, working.at("text").value], [`${CANARY}\n`, `${CANARY}\n`], "content and text")
      same(
        [working.at("size").value, working.at("binary").value, working.at("ref").value],
        [CANARY.length + 1, false, "working"],
        "size, binary and ref"
      )
      same(json.at("base").value, null, "base of a new file")
    },
    { ...running, source: "docs/decisions/8" }
  ),
  rule("content-base", "base is the file as the sandbox found it.", async (world) => {
    const file = [...(await entries(world)).values()].find((item) => item.at("status").value === "modified")
    const { json } = answered(await content(world, file?.at("path").string ?? ""), 200, "content of a changed file")
    same(json.at("status").value, "modified", "status")
    same(json.at("working").at("content").value, `${json.at("base").at("content").string}changed\n`, "working")
  }, { ...running, source: "docs/decisions/8" }),
  rule(
    "content-hash",
    "hash is the id git gives a blob of the bytes, ref is working or the commit.",
    async (world) => {
      const file = [...(await entries(world)).values()].find((item) => item.at("status").value === "modified")
      const { json } = answered(await content(world, file?.at("path").string ?? ""), 200, "content of a changed file")
      const commit = json.at("base").at("ref").string
      holds(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/u.test(commit), "a commit id as the ref of base", commit)
      same(json.at("working").at("ref").value, "working", "ref of working")
      for (const name of ["working", "base"]) {
        const version = json.at(name)
        const hash = commit.length === 40 ? "sha1" : "sha256"
        same(version.at("hash").value, blobId(version.at("content").string, hash), `hash of ${name}`)
      }
    },
    { ...running, source: "docs/decisions/8" }
  ),
  rule("content-missing", "Of a path that was never there every version is null.", async (world) => {
    const { json } = answered(await content(world, "conformance/missing/file"), 200, "content of nothing")
    for (const name of ["working", "head", "base", "status", "size"]) same(json.at(name).value, null, name)
  }, { ...running, source: "docs/decisions/8" }),
  rule("content-binary", "A binary file has no content.", async (world) => {
    const { json } = answered(await content(world, "conformance/binary.bin"), 200, "content of a binary file")
    const working = json.at("working")
    same(
      ["content", "text", "size", "binary"].map((name) => working.at(name).value),
      [null, null, 3, true],
      "content, text, size and binary"
    )
    same(json.at("binary").value, true, "binary")
  }, { ...running, source: "docs/decisions/8" }),
  rule("content-too-large", "Content above 1 MiB is 413 file_too_large.", async (world) => {
    refused(await content(world, "conformance/big/text"), 413, "file_too_large", "1 MiB and a byte")
  }, { ...running, source: "docs/decisions/8" }),
  rule("large-bytes", "A large download arrives whole.", async (world) => {
    const reply = answered(await download(world, "conformance/big/text"), 200, "a download of 1 MiB and a byte")
    same(reply.bytes.length, 2 ** 20 + 1, "bytes")
    same(
      createHash("sha256").update(reply.bytes).digest("hex"),
      createHash("sha256").update(Buffer.alloc(2 ** 20 + 1)).digest("hex"),
      "their SHA-256"
    )
  }, running)
]
