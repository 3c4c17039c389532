/** Requests that a vendor does not document: also those whose failure the code under test passed over. */
export const surprises: string[] = [];
