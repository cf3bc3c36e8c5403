/** Git's smart HTTP protocol by `git http-backend`, over bare repositories. */
import { spawn } from "node:child_process"
import type { IncomingHttpHeaders } from "node:http"
import { dirname } from "node:path"
import { buffer } from "node:stream/consumers"

interface GitRequest {
  readonly method: string
  /** `info/refs`, `git-upload-pack` or `git-receive-pack`. */
  readonly service: string
  /** Without the question mark. */
  readonly query: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface GitAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** `repository` is a bare repository's folder. Every client may push. */
export const answer = async (repository: string, { body, headers, method, query, service }: GitRequest): Promise<GitAnswer> => {
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env["PATH"],
      HOME: "/nonexistent",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_PROJECT_ROOT: dirname(repository),
      GIT_HTTP_EXPORT_ALL: "1",
      REMOTE_USER: "x-access-token",
      REQUEST_METHOD: method,
      PATH_INFO: `${repository.slice(dirname(repository).length)}/${service}`,
      QUERY_STRING: query,
      CONTENT_TYPE: headers["content-type"],
      HTTP_CONTENT_ENCODING: headers["content-encoding"],
      GIT_PROTOCOL: headers["git-protocol"]?.toString()
    },
    stdio: ["pipe", "pipe", "ignore"]
  })
  // It may answer without having read everything.
  backend.stdin.on("error", () => {})
  backend.stdin.end(body)
  const output = await buffer(backend.stdout)
  const end = output.indexOf("\r\n\r\n")
  const lines = output.subarray(0, end).toString().split("\r\n").map((line) => line.split(": "))
  const fields = Object.fromEntries(lines.map(([name = "", value = ""]) => [name.toLowerCase(), value]))
  const { status = "200", ...rest } = fields
  return { status: Number(status.slice(0, 3)), headers: rest, body: output.subarray(end + 4) }
}
