/** Where agents leave files for people (docs/decisions/32). */

/** The folder below every home. A box makes it when it is provisioned. */
export const ARTIFACTS_FOLDER = "artifacts"

/** The variable of processes of a box that names the folder. */
export const ARTIFACTS_VARIABLE = "SLIPWAY_ARTIFACTS"
