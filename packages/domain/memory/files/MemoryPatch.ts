/** A git patch between two contents of a tree, for `WorkingTreesMemory`. It finds no renames. */
import { sha1 } from "../../src/ids/Digest.ts"
import { isProtected } from "../../src/source/rules/FileRules.ts"
import { linesOf } from "../../src/text/Lines.ts"
import { type Content, isBinary } from "./MemoryTree.ts"

const utf8 = new TextEncoder()

/** Unchanged lines around a change. */
const CONTEXT = 3

interface Side {
  readonly mode: string
  readonly content: string
}

const sideOf = ({ executables, files }: Content, path: string): Side | undefined => {
  const content = files.get(path)
  return content === undefined ? undefined : { content, mode: executables.has(path) ? "100755" : "100644" }
}

type Line = readonly [sign: " " | "-" | "+", text: string]

/** Compares by a longest common subsequence; deleted lines come before added ones. */
const compared = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): ReadonlyArray<Line> => {
  const longest = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0))
  const at = (i: number, j: number) => longest[i]?.[j] ?? 0
  for (let i = a.length - 1; i >= 0; i--) {
    const row = longest[i] ?? []
    for (let j = b.length - 1; j >= 0; j--) row[j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
  }
  const lines: Array<Line> = []
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && a[i] === b[j]) {
      lines.push([" ", a[i] ?? ""])
      i++
      j++
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) lines.push(["-", a[i++] ?? ""])
    else lines.push(["+", b[j++] ?? ""])
  }
  return lines
}

const range = (start: number, count: number): string => count === 1 ? `${start}` : `${count === 0 ? start - 1 : start},${count}`

const hunks = (lines: ReadonlyArray<Line>): string => {
  let text = ""
  const differs = lines.flatMap(([sign], i) => sign === " " ? [] : [i])
  for (let first = 0; first < differs.length;) {
    let last = first
    while ((differs[last + 1] ?? Number.POSITIVE_INFINITY) - (differs[last] ?? 0) <= 2 * CONTEXT + 1) last++
    const start = Math.max(0, (differs[first] ?? 0) - CONTEXT)
    const part = lines.slice(start, (differs[last] ?? 0) + CONTEXT + 1)
    const count = (of: ReadonlyArray<Line>, without: string) => of.filter(([sign]) => sign !== without).length
    const before = lines.slice(0, start)
    const [from, to] = [["+", "-"], ["-", "+"]].map(([without = "", sign = ""]) =>
      `${sign}${range(count(before, without) + 1, count(part, without))}`
    )
    text += `@@ ${from} ${to} @@\n`
    for (const [sign, line] of part) text += line.endsWith("\n") ? sign + line : `${sign}${line}\n\\ No newline at end of file\n`
    first = last + 1
  }
  return text
}

const idOf = (side: Side | undefined): string => {
  const bytes = utf8.encode(side?.content)
  return side === undefined ? "0".repeat(40) : sha1(utf8.encode(`blob ${bytes.length}\0${side.content}`))
}

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
const LENGTHS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** In the format of zlib (RFC 1950), uncompressed. */
const stored = (bytes: Uint8Array): Uint8Array => {
  const blocks: Array<number> = [0x78, 0x01]
  for (let at = 0; at === 0 || at < bytes.length; at += 65_535) {
    const block = bytes.subarray(at, at + 65_535)
    const [low, high] = [block.length & 0xff, block.length >> 8]
    blocks.push(at + 65_535 >= bytes.length ? 1 : 0, low, high, ~low & 0xff, ~high & 0xff, ...block)
  }
  let [a, b] = [1, 0]
  for (const byte of bytes) {
    a = (a + byte) % 65_521
    b = (b + a) % 65_521
  }
  return new Uint8Array([...blocks, b >> 8, b & 0xff, a >> 8, a & 0xff])
}

/** A whole content in git's binary patch format. */
const literal = (content: string): string => {
  const bytes = utf8.encode(content)
  const packed = stored(bytes)
  let text = `literal ${bytes.length}\n`
  for (let at = 0; at < packed.length; at += 52) {
    const line = packed.subarray(at, at + 52)
    text += LENGTHS[line.length - 1] ?? ""
    for (let i = 0; i < line.length; i += 4) {
      let number = [0, 1, 2, 3].reduce((sum, j) => sum * 256 + (line[i + j] ?? 0), 0)
      let digits = ""
      for (let j = 0; j < 5; j++) {
        digits = (ALPHABET[number % 85] ?? "") + digits
        number = Math.floor(number / 85)
      }
      text += digits
    }
    text += "\n"
  }
  return `${text}\n`
}

const patchOf = (path: string, before: Side | undefined, after: Side | undefined, isWhole: boolean): string => {
  if (isProtected(path)) {
    return `# Protected file ${before === undefined ? "added" : after === undefined ? "deleted" : "modified"}: ${path}\n`
  }
  const [a, b] = [before === undefined ? "/dev/null" : `a/${path}`, after === undefined ? "/dev/null" : `b/${path}`]
  const modes = before === undefined
    ? `new file mode ${after?.mode}\n`
    : after === undefined
    ? `deleted file mode ${before.mode}\n`
    : before.mode === after.mode
    ? ""
    : `old mode ${before.mode}\nnew mode ${after.mode}\n`
  const head = `diff --git a/${path} b/${path}\n${modes}`
  const [old, now] = [before?.content ?? "", after?.content ?? ""]
  if (before?.content === after?.content) return head
  const index = `${head}index ${idOf(before)}..${idOf(after)}${before?.mode === after?.mode ? ` ${after?.mode}` : ""}\n`
  if ([old, now].some((text) => isBinary(utf8.encode(text)))) {
    return index + (isWhole ? `GIT binary patch\n${literal(now)}${literal(old)}` : `Binary files ${a} and ${b} differ\n`)
  }
  const changed = hunks(compared(linesOf(old), linesOf(now)))
  return changed === "" ? index : `${index}--- ${a}\n+++ ${b}\n${changed}`
}

/** `path`: only this file, or the files below it. Protected files come last. */
export const patch = (before: Content, after: Content, path = "", isWhole = false): string => {
  const paths = [...new Set([...before.files.keys(), ...after.files.keys()])].sort().filter((name) => {
    const [a, b] = [sideOf(before, name), sideOf(after, name)]
    return (path === "" || name === path || name.startsWith(`${path}/`)) && (a?.content !== b?.content || a?.mode !== b?.mode)
  })
  const ordered = [...paths.filter((name) => !isProtected(name)), ...paths.filter(isProtected)]
  return ordered.map((name) => patchOf(name, sideOf(before, name), sideOf(after, name), isWhole)).join("")
}
