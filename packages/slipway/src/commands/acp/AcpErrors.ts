/** Failures as errors of the Agent Client Protocol, whose messages say what to do. */
import { RequestError } from "@agentclientprotocol/sdk"
import { CommandFailed, ExitCode } from "../client/server/Server.ts"
import { Unsendable } from "./PromptContent.ts"

/** Codes of JSON-RPC and of the protocol. */
const CODES = { invalidParams: -32_602, internal: -32_603, authRequired: -32_000, notFound: -32_002 } as const

export const invalid = (message: string): RequestError => new RequestError(CODES.invalidParams, message)
export const failed = (message: string): RequestError => new RequestError(CODES.internal, message)
export const notFound = (message: string): RequestError => new RequestError(CODES.notFound, message)
const authRequired = (message: string): RequestError => new RequestError(CODES.authRequired, message)

/** Any failure of a request of the editor. Defects have no text: theirs may have data of the person. */
export const errorOf = (error: unknown, log: (text: string) => void): RequestError => {
  if (error instanceof RequestError) return error
  if (error instanceof Unsendable) return invalid(error.message)
  if (error instanceof CommandFailed) {
    if (error.exitCode === ExitCode.unauthorized) return authRequired(error.message)
    return error.exitCode === ExitCode.notFound ? notFound(error.message) : failed(error.message)
  }
  log(`broke: ${error instanceof Error ? error.stack ?? error.message : String(error)}`)
  return failed("slipway acp broke. Its standard error, which editors keep in their logs, has the cause.")
}
