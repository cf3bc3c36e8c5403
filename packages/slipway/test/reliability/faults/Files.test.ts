/** Paths that lead out of a tree or to what is protected, however they are written, and names that are none a person would give. */
import { Effect } from "effect"
import type { Answer, World } from "./World.ts"
import * as Worlds from "./World.ts"

const { SANDBOXES, tally, unique } = Worlds

const world = Worlds.shared(Effect.succeed({ name: "files" }))
const { both, swept } = Worlds.cases(world)

/** A sandbox in which that was done. */
const after = async (real: World, script: string): Promise<string> => {
  const id = await Worlds.create(real, `[[shell ${script.replaceAll("]", "\\]")}]]`)
  await Worlds.turnEnd(real, id)
  return id
}

const READS = { tree: "directory", download: "path", content: "path" } as const
type Read = keyof typeof READS
const KINDS = Object.keys(READS) as ReadonlyArray<Read>

/** `encoded`: of the path, as it stands in the address. */
const read = (real: World, url: string, id: string, what: Read, encoded: string): Promise<Answer> =>
  real.ask(url, `${SANDBOXES}/${id}/files/${what}?${READS[what]}=${encoded}`, { key: real.key })

const DOTS = ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "..%00", "..;", "....", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae", "%uff0e%uff0e",
  "%ef%bc%8e%ef%bc%8e"]
const SLASHES = ["/", "%2f", "%2F", "\\", "%5c", "%252f", "%c0%af", "//", "/./", "%2f%2e%2f", "%e2%88%95"]
/** Ways up and to something, of 12 × 11 spellings. */
const UP = DOTS.flatMap((dots) =>
  SLASHES.flatMap((slash) => [`${`${dots}${slash}`.repeat(8)}etc${slash}passwd`, `src${slash}${dots}${slash}.git${slash}config`])
)

const NAMES = [".env", "../../faults/.env", "src/../.env", ".ENV", ".Env", "src//..//.env", "src/.env", ".git", ".git/config",
  ".GIT/config", ".git/", "src/../.git/HEAD", "src/.git", "nested/.git/config", "nested/.git", "worktree/.git", "hard", "soft",
  "git-link/config", "root/etc/passwd", "up/config"]

both("20 ways out of the tree in 264 spellings, and 21 names of what is protected", {
  "a path is decoded twice": {
    plant: {
      reply: (answer, { path }) =>
        path.includes("%252e%252e") ? { ...answer, status: 200, body: Buffer.from("root:x:0:0:root:/root:/bin/sh\n") } : answer
    },
    tells: /is 200.*%252e/u
  },
  "links are told from other files": {
    plant: {
      reply: (answer, { path }) =>
        path.includes("download?path=hard")
          ? { ...answer, body: Buffer.from(`{"error":{"code":"file_protected","message":"A file of 38 bytes with two names."}}`) }
          : answer
    },
    tells: /told apart/u
  }
}, async (real, urls, rounds) => {
  const hidden = `hidden-${unique()}`
  const id = await after(
    real,
    [
      "mkdir -p src worktree",
      `echo ${hidden} > .env`,
      "cp .env src/.env",
      "ln .env hard",
      "ln -s .env soft",
      "ln -s / root",
      "ln -s .git git-link",
      "ln -s ../.git src/up && ln -s .git up",
      "printf 'gitdir: ../.git\\n' > src/.git",
      "printf 'gitdir: /etc\\n' > worktree/.git",
      "git init --quiet nested"
    ].join("; ")
  )
  const lost: Array<string> = []
  const statuses: Array<number> = []
  const isTold = ({ text }: Answer) =>
    text.includes(hidden) || text.includes("root:x:") || text.includes("[core]") || text.includes("ref: ")
  const spellings = UP.filter((_, i) => i % Math.ceil(20 / Math.min(20, rounds)) === 0)
  for (const [i, encoded] of spellings.entries()) {
    const what = KINDS[i % KINDS.length] ?? "tree"
    const answer = await read(real, urls[i % 2] ?? "", id, what, encoded)
    statuses.push(answer.status)
    // Some spellings are valid file names: the content of a missing file is empty.
    const isNothing = answer.status === 200 && what === "content" && answer.said.working === null && answer.said.base === null
    const isRefused = [400, 403, 404].includes(answer.status) && answer.headers["content-disposition"] === undefined
    if (!isNothing && !isRefused || isTold(answer)) lost.push(`a ${what} is ${answer.status}: ${encoded}`)
  }
  const bodies = new Set<string>()
  for (const name of NAMES) {
    for (const what of ["download", "content"] as const) {
      const answer = await read(real, urls[0], id, what, encodeURIComponent(name))
      statuses.push(answer.status)
      if (answer.status !== 403 || answer.said.error?.code !== "file_protected") {
        lost.push(`a ${what} of ${name} is ${answer.status} ${answer.said.error?.code}`)
      }
      bodies.add(answer.text)
    }
    const { said, status } = await read(real, urls[1], id, "tree", encodeURIComponent(name))
    if (![400, 403, 404].includes(status) || said.entries !== undefined) lost.push(`a tree of ${name} is ${status}`)
  }
  if (bodies.size !== 1) lost.push(`protected ones can be told apart: ${[...bodies].join(" ")}`)
  const { said } = await read(real, urls[0], id, "tree", "")
  const sized = (said.entries ?? []).filter(({ name, size }) => [".env", "soft", "root", "git-link", "up"].includes(name) && size !== null)
  if (sized.length > 0 || said.entries?.length === 0) lost.push(`listed with a size: ${sized.map(({ name }) => name).join(", ")}`)
  await Worlds.terminate(real, id)
  return { done: `${statuses.length} reads of ${spellings.length} spellings and ${NAMES.length} names, answered ${tally(statuses)}`, lost }
})

// ---------------------------------------------------------------------------------------------------------------

const ODD = ["cr\rlf\nSet-Cookie: x=1", "a\"quote", "it's", "semi;colon", "back\\slash", "100%41", "\u65e5\u672c.txt", "\u202egnp.exe",
  "-rf", "--output=x", "x".repeat(255), "<img src=x onerror=alert(1)>", "a&b#c?d=e", " spaces ", "tab\tbed", "\u{1f600}", "e\u0301", "*",
  "$(id)", "~", "bell\u0007\u001b[31m"]

/** A name for the shell: bytes that it takes for nothing else. */
const inOctal = (name: Buffer) => [...name].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")

both("21 odd names and one invalid UTF-8 name, written by an agent, listed and downloaded", {
  "a quote is not escaped": {
    plant: {
      reply: (answer, { path }) =>
        path.includes("a%22quote") && answer.headers["content-disposition"] !== undefined
          ? { ...answer, headers: { ...answer.headers, "content-disposition": "attachment; filename=\"a\"quote\"" } }
          : answer
    },
    tells: /"a\\"quote" has the header/u
  },
  "a name is listed in another normal form": {
    plant: {
      reply: (answer, { path }) =>
        path.includes("/files/tree") ? { ...answer, body: Buffer.from(answer.body.toString().replaceAll("e\u0301", "\u00e9")) } : answer
    },
    tells: /is not listed/u
  }
}, async (real, urls) => {
  const lost: Array<string> = []
  const write = (name: Buffer, content: string) => `f=$(printf '${inOctal(name)}'; printf x); printf %s ${content} > "../../faults/\${f%x}"`
  const invalid = Buffer.from([0x62, 0x61, 0x64, 0xff, 0xfe])
  const id = await after(
    real,
    ["mkdir odd; cd odd", ...ODD.map((name, i) => write(Buffer.from(name), `file-${i}`)), write(invalid, "invalid")].join("; ")
  )
  const { said, status, text } = await read(real, urls[0], id, "tree", "odd")
  if (status !== 200) lost.push(`the tree is ${status} ${text}`)
  const listed = new Set((said.entries ?? []).map(({ name }) => name))
  for (const [i, name] of ODD.entries()) {
    const what = JSON.stringify(name)
    if (!listed.has(name)) lost.push(`${what} is not listed`)
    const encoded = encodeURIComponent(`odd/${name}`)
    const { headers, status, text } = await read(real, urls[i % 2] ?? "", id, "download", encoded)
    if (status !== 200 || text !== `file-${i}`) lost.push(`a download of ${what} is ${status} ${text.slice(0, 80)}`)
    const disposition = String(headers["content-disposition"])
    const parts = /^attachment; filename="([A-Za-z0-9._ -]*)"; filename\*=UTF-8''([A-Za-z0-9!#$&+.^_`|~%-]*)$/u.exec(disposition)
    if (parts === null || decodeURIComponent(parts[2] ?? "") !== name) lost.push(`${what} has the header ${disposition}`)
    if (headers["set-cookie"] !== undefined) lost.push(`${what} sets a cookie`)
    const content = await read(real, urls[1], id, "content", encoded)
    if (content.status !== 200) lost.push(`the content of ${what} is ${content.status}`)
  }
  const answers = await Promise.all(
    KINDS.map((what) => read(real, urls[0], id, what, "odd/bad%ff%fe"))
  )
  for (const answer of answers) if (answer.status !== 400 && answer.status !== 404) lost.push(`no UTF-8 is ${answer.status} ${answer.text}`)
  await Worlds.terminate(real, id)
  return {
    done: `${ODD.length + 1} names: ${listed.size} listed, ${ODD.length} downloaded; no UTF-8 is ${tally(answers.map((a) => a.status))}`,
    lost
  }
})

swept()
