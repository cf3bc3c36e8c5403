/** A certificate for `receiver.test` that vouches for itself. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { temporaryFolder } from "../../testing/hosts/Machine.ts"

export const certificate = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")]
  return yield* Effect.promise(async () => {
    await promisify(execFile)("openssl", [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-keyout",
      key,
      "-out",
      cert,
      "-days",
      "2",
      "-subj",
      "/CN=receiver.test",
      "-addext",
      "subjectAltName=DNS:receiver.test"
    ])
    return { key: await readFile(key, "utf8"), cert: await readFile(cert, "utf8") }
  })
})
