/** Maps errors between a worker and a runner to errors of the port. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SpawnFailure from "@slipway/machine/node/SpawnFailure"
import { HomeRefused, ProcessRefused, type RunnerError, RunnerRefused, RunnerUnreachable, RunnerViolation } from "../client/RunnerErrors.ts"

export type Operation = HostError["operation"]

export const isRunnerError = (error: unknown): error is RunnerError =>
  error instanceof RunnerUnreachable || error instanceof RunnerRefused || error instanceof RunnerViolation

/** A new connection may succeed, unless another worker has the machine, or its sandbox took it over. */
export const ofConnection = (operation: Operation) => (error: RunnerError): HostError => {
  switch (error._tag) {
    case "RunnerUnreachable":
      return new HostError({ operation, detail: `The sandbox's machine cannot be reached (${error.detail}).`, retryable: true })
    case "RunnerRefused":
      return error.reason === "fence"
        ? new HostError({ operation, detail: `A newer lease has the sandbox's machine (fence ${error.fence}).`, retryable: false })
        : error.reason === "session"
        ? new HostError({ operation, detail: "The sandbox's machine was started again, or has a newer session.", retryable: true })
        : new HostError({ operation, detail: "The runner in the sandbox's machine is of another version.", retryable: false })
    case "RunnerViolation":
      return new HostError({
        operation,
        detail: `The sandbox's machine says what no runner says: ${error.detail}.`,
        retryable: false,
        ofSandbox: true
      })
  }
}

export const ofProcess = (command: string) => (error: ProcessRefused | RunnerError): HostError =>
  error instanceof ProcessRefused
    ? SpawnFailure.ofCommand(command, error.code)
    : ofConnection("spawn")(error)

export const ofHome = (operation: Operation) => (error: HomeRefused | RunnerError): HostError =>
  error instanceof HomeRefused
    ? new HostError({
      operation,
      detail: error.reason === "too_slow"
        ? "Reading the home took too long."
        : `The home cannot be ${operation === "read" ? "read" : "written to"} (${error.reason}: ${error.detail}).`,
      retryable: true,
      ofSandbox: true
    })
    : ofConnection(operation)(error)
