/** A private certificate authority, made by openssl, and the certificate that it gave a server. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { temporaryFolder } from "./hosts/Machine.ts"

const openssl = (...args: ReadonlyArray<string>) => promisify(execFile)("openssl", args)

const KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

export interface Authority {
  /** The file of the authority's certificate, PEM. */
  readonly file: string
  readonly ca: string
  readonly key: string
  readonly cert: string
}

/** For a server of these names, such as `DNS:*.test` and `IP:127.0.0.1`. */
export const authority = Effect.fnUntraced(function*(...names: ReadonlyArray<string>) {
  const folder = yield* temporaryFolder
  const at = (name: string) => join(folder, name)
  return yield* Effect.promise(async (): Promise<Authority> => {
    await openssl("req", "-x509", ...KEY, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-days", "2", "-subj", "/CN=Acme private CA")
    await openssl("req", ...KEY, "-keyout", at("server.key"), "-out", at("server.csr"), "-subj", "/CN=server")
    await writeFile(at("server.ext"), `subjectAltName=${names.join(",")}\n`)
    const given = ["-in", at("server.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "2"]
    await openssl("x509", "-req", ...given, "-extfile", at("server.ext"), "-out", at("server.pem"))
    const read = (name: string) => readFile(at(name), "utf8")
    return { file: at("ca.pem"), ca: await read("ca.pem"), key: await read("server.key"), cert: await read("server.pem") }
  })
})
