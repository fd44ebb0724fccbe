// With IAM a browser cannot sign. The page says what to do.

import { arrive, see } from './kit/actions.mjs';

export default async function scenario(stage) {
  stage.expect(/status of 401/);
  const page = await stage.open();
  await arrive(page, /./);
  await see(page, 'duroxide-lambda dashboard');
}
