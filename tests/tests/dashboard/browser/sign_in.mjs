// A person signs in with the issuer (authorization code, PKCE). The token stays in the memory of the page.

import assert from 'node:assert/strict';
import { arrive, see } from './kit/actions.mjs';
import { choose, counts, signedIn } from './kit/sign_in.mjs';

export default async function scenario(stage) {
  const before = await counts(stage.world);
  const page = await signedIn(stage, 'reader', '#/instances?status=Running');
  await arrive(page, 'Instances');
  assert.match(page.url(), /\/#\/instances\?status=Running$/, 'the screen that was asked for, and no code in the address');
  await see(page, 'reader@example.org');
  const after = await counts(stage.world);
  assert.equal(after.authorization_code - (before.authorization_code ?? 0), 1);
  assert.equal(after.refused ?? 0, before.refused ?? 0);

  const calls = stage.requests.filter(({ path }) => path.startsWith('/v1/instances'));
  assert.ok(calls.length > 0 && calls.every(({ headers }) => headers.authorization?.startsWith('Bearer ')));
  const token = calls[0].headers.authorization.slice('Bearer '.length);
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, history.state]));
  assert.ok(!kept.includes(token) && !kept.includes('code-'), kept);
  assert.ok(stage.requests.every(({ path }) => !path.includes(token)), 'no address has the token');

  // A reload forgets the token.
  await page.reload();
  await arrive(page, 'Sign in');
  await choose(page, 'wrong state');
  await see(page, 'The sign-in was not begun by this page');
  assert.ok(!page.url().includes('code='), page.url());
  await choose(page, 'refused');
  await see(page, 'no such person');
  assert.equal((await counts(stage.world)).authorization_code, after.authorization_code, 'no code was redeemed');
  await choose(page, 'reader');
  await arrive(page, 'Instances');

  // A token without a role.
  stage.expect(/status of 403/);
  const nobody = await signedIn(stage, 'nobody');
  await arrive(nobody, 'You have no role here');
}
