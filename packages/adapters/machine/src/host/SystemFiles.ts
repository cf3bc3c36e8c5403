/** The files of the machine's own system that boxes see, read-only. */
import { lstatSync, readdirSync, readlinkSync } from "node:fs"

interface SystemFolder {
  readonly path: string
  /** Where it leads as a link; `null`: it is a folder of its own. */
  readonly link: string | null
}

/** Folders that are links into `/usr` on most systems, and folders of their own on others. */
export const folders: ReadonlyArray<SystemFolder> = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"].flatMap((path) => {
  try {
    return [{ path, link: lstatSync(path).isSymbolicLink() ? readlinkSync(path) : null }]
  } catch {
    return []
  }
})

/** Options of bubblewrap that show {@link folders} in a box. */
export const bubblewrapOptions = folders.flatMap(({ link, path }) => link === null ? ["--ro-bind", path, path] : ["--symlink", link, path])

/** Names in `/etc`: certificates, the linker's cache and the like: public, and wanted by every program. */
const PUBLIC: ReadonlyArray<string> = [
  "alternatives",
  "ca-certificates",
  "ca-certificates.conf",
  "crypto-policies",
  "gai.conf",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "os-release",
  "pki/ca-trust",
  "pki/tls/certs",
  "protocols",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf"
]

/** Names in `/etc` where distributions keep what toolchains do not start without, and the fonts that programs draw with. */
const TOOLCHAINS = /^(?:java|maven|gradle|ant|scala|python|ruby|gem|php|perl|lua|R|ocaml|ghc|mono|dotnet|fonts)(?:[.\d-][\w.-]*)?$/u

/**
 * Names in `/etc` that boxes see. Looked up for each box, because a toolchain may be installed while the service runs. Boxes read them as
 * users of their own, so a file there that is not public stays unreadable.
 */
export const configuration = (): ReadonlyArray<string> => [...PUBLIC, ...readdirSync("/etc").filter((name) => TOOLCHAINS.test(name))]
