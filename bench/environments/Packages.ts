/** Real npm packages: those that this checkout has installed, packed again under their own names and versions. */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs"
import path from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

/** A package of a program or of generated files would be most of what is installed. */
const MAX_BYTES = 8 * 2 ** 20
const MAX_FILES = 1000

export interface Package {
  readonly name: string
  readonly version: string
  /** As its package.json has it. */
  readonly bin: unknown
  readonly tarball: string
  /** The hash of the tarball, as npm writes it. */
  readonly integrity: string
  /** Unpacked. */
  readonly files: number
  readonly bytes: number
}

interface Installed {
  readonly version: string
  readonly link?: boolean
  readonly hasInstallScript?: boolean
}

/** The size of a folder without the packages in it. */
const sizeOf = (folder: string) => {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !path.relative(folder, entry.parentPath).split(path.sep).includes("node_modules"))
    .map(({ name, parentPath }) => statSync(path.join(parentPath, name)).size)
  return { files: files.length, bytes: files.reduce((sum, size) => sum + size, 0) }
}

/** Packs the packages at the top of the checkout's `node_modules` into files of `folder`; without those that run scripts of theirs. */
export const pack = async (checkout: string, folder: string): Promise<ReadonlyArray<Package>> => {
  const modules = path.join(checkout, "node_modules")
  const { packages }: { readonly packages: Readonly<Record<string, Installed>> } = JSON.parse(
    readFileSync(path.join(modules, ".package-lock.json"), "utf8")
  )
  mkdirSync(folder, { recursive: true })
  const found = Object.entries(packages).flatMap(([at, { hasInstallScript = false, link = false, version }]) => {
    const name = at.slice("node_modules/".length)
    if (!at.startsWith("node_modules/") || name.includes("node_modules/") || link || hasInstallScript) return []
    const size = sizeOf(path.join(modules, name))
    return size.files > MAX_FILES || size.bytes > MAX_BYTES ? [] : [{ name, version, ...size }]
  })
  const packed: Array<Package> = []
  for (const { name, ...about } of found) {
    const tarball = path.join(folder, `${name.replace("/", "+")}.tgz`)
    const from = path.join(modules, name)
    await run("tar", ["-C", from, "--exclude=./node_modules", "--transform=s,^\\.,package,", "-czf", tarball, "."])
    const { bin }: { readonly bin?: unknown } = JSON.parse(readFileSync(path.join(from, "package.json"), "utf8"))
    const integrity = `sha512-${createHash("sha512").update(readFileSync(tarball)).digest("base64")}`
    packed.push({ name, ...about, bin, tarball, integrity })
  }
  return packed
}
