/** Large repositories, written as git's import stream: without a checkout, and without a process for each commit. */
import { execFileSync, spawn } from "node:child_process"
import { randomFillSync } from "node:crypto"
import { once } from "node:events"
import { mkdirSync } from "node:fs"

export interface Size {
  readonly files: number
  readonly commits: number
  /** Bytes of all files of the newest commit together. */
  readonly bytes: number
}

/** In each folder below `src`. */
export const PER_FOLDER = 100

const TEXT_BYTES = 1_000
/** The size of files that do not compress. */
const BLOB_BYTES = 8 * 2 ** 20

const data = (bytes: Buffer): ReadonlyArray<Buffer> => [Buffer.from(`data ${bytes.length}\n`), bytes, Buffer.from("\n")]

const fileOf = (i: number): string => `src/part-${Math.floor(i / PER_FOLDER)}/file-${i % PER_FOLDER}.txt`

const commit = function*(number: number): Generator<Buffer> {
  yield Buffer.from(`commit refs/heads/main\ncommitter A <a@example.com> ${1_700_000_000 + number} +0000\n`)
  yield* data(Buffer.from(`Commit ${number}`))
}

const stream = function*({ bytes, commits, files }: Size): Generator<Buffer> {
  yield* commit(1)
  for (let i = 0; i < files; i++) {
    yield Buffer.from(`M 100644 inline ${fileOf(i)}\n`)
    yield* data(Buffer.from(`${i}\n`.padEnd(TEXT_BYTES - 1, "lorem ipsum dolor sit amet\n") + "\n"))
  }
  for (let left = bytes - files * TEXT_BYTES, i = 0; left > 0; left -= BLOB_BYTES, i++) {
    yield Buffer.from(`M 100644 inline assets/blob-${i}.bin\n`)
    yield* data(randomFillSync(Buffer.alloc(Math.min(left, BLOB_BYTES))))
  }
  for (let number = 2; number <= commits; number++) {
    yield* commit(number)
    yield Buffer.from(`M 100644 inline ${fileOf(number % files)}\n`)
    yield* data(Buffer.from(`${number}\n`.padEnd(TEXT_BYTES - 1, "lorem ipsum dolor sit amet\n") + "\n"))
  }
}

/** A bare repository with a branch `main`. */
export const make = async (folder: string, size: Size): Promise<string> => {
  mkdirSync(folder, { recursive: true })
  execFileSync("git", ["init", "--quiet", "--bare", "--initial-branch=main", folder])
  const child = spawn("git", ["-c", "core.bigFileThreshold=1m", "-c", "core.compression=1", "fast-import", "--quiet"], {
    cwd: folder,
    stdio: ["pipe", "ignore", "inherit"]
  })
  const ended = once(child, "close")
  for (const chunk of stream(size)) if (!child.stdin.write(chunk)) await once(child.stdin, "drain")
  child.stdin.end()
  const [code] = await ended
  if (code !== 0) throw new Error(`git fast-import ended with ${code}`)
  return folder
}
