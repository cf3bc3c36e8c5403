/** What boxes see of the machine's own system, read-only, where it is on the machine. */
import { lstatSync, readlinkSync } from "node:fs"

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

/** Names in `/etc`: certificates, the linker's cache and the like: public, and wanted by every program. */
export const configuration: ReadonlyArray<string> = [
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
