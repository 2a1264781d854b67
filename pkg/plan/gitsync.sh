# Runs git-sync with the arguments of this script, once the Secrets are as git and ssh want them, and leaves commit,
# date, author and subject in the termination message, from where the controller reads them. What users write
# never gets into this text: it comes in arguments and variables. Set by the controller: TRANSPORT is ssh or
# https, GIT_SECRET and REGISTRY_SECRET are the names of the Secrets if there are any, CONTEXT_DIR is what is built.
secret=/etc/git-secret
own=/run/git # in memory, and nobody else's

refuse() {
	echo "build-controller: $1" >&2
	exit 1
}

# first prints which of the named keys the Secret has.
first() {
	for key; do
		if [ -e "$secret/$key" ]; then
			echo "$key"
			return
		fi
	done
}

if [ -n "$REGISTRY_SECRET" ] && [ ! -e /etc/registry-secret/config.json ]; then
	refuse "Secret \"$REGISTRY_SECRET\" lacks the key .dockerconfigjson or config.json"
fi

umask 077
key=$(first ssh ssh-privatekey)
if [ -n "$key" ]; then
	# A key that was pasted into a form or came from Windows: ssh wants a newline at its end, and none but that.
	text=$(sed 's/^[[:space:]]*//; s/[[:space:]]*$//' "$secret/$key")
	printf '%s\n' "$text" >"$own/key"
	# Of these two ssh says no more than that permission is denied, or that it knows no such format.
	case $(head -n 1 "$own/key") in
	ssh-* | ecdsa-* | sk-* | '---- BEGIN SSH2 PUBLIC KEY'*) refuse "the key $key holds a public key" ;;
	esac
	case $(head -n 2 "$own/key") in
	*ENCRYPTED*) refuse "the key $key is protected by a passphrase" ;;
	*'OPENSSH PRIVATE KEY'*b3BlbnNzaC1rZXktdjEAAAAABG5vbmU*) ;; # "openssh-key-v1" and the cipher "none", in base64
	*'OPENSSH PRIVATE KEY'*b3BlbnNzaC1rZXktdjEA*) refuse "the key $key is protected by a passphrase" ;;
	esac
	if [ -e "$secret/known_hosts" ]; then
		tr -d '\r' <"$secret/known_hosts" >"$own/known_hosts"
	fi
	# For submodules over ssh of a repository over https, but not at the price of a known_hosts that nothing needs.
	if [ "$TRANSPORT" = ssh ] || [ -e "$own/known_hosts" ]; then
		set -- "$@" --ssh-key-file="$own/key" --ssh-known-hosts=true --ssh-known-hosts-file="$own/known_hosts"
	fi
elif [ "$TRANSPORT" = ssh ]; then
	refuse "Secret \"$GIT_SECRET\" lacks the key ssh or ssh-privatekey"
fi

key=$(first password token)
if [ -n "$key" ]; then
	text=$(tr -d '\r' <"$secret/$key") # which takes the newlines at its end away too
	printf '%s' "$text" >"$own/password"
	GITSYNC_USERNAME=git # whoever takes a token takes any name with it
	if [ -e "$secret/username" ]; then
		GITSYNC_USERNAME=$(tr -d '\r' <"$secret/username")
	fi
	export GITSYNC_USERNAME
	set -- "$@" --password-file="$own/password"
elif [ "$TRANSPORT" = https ] && [ -n "$GIT_SECRET" ] && [ -z "$(first ca.crt ssh ssh-privatekey)" ]; then
	refuse "Secret \"$GIT_SECRET\" lacks the key password or token"
fi

for ca in "$secret/ca.crt" /etc/git-ca/ca.crt; do
	if [ -e "$ca" ]; then
		[ -e "$own/ca.crt" ] || cat /etc/ssl/certs/ca-certificates.crt >"$own/ca.crt"
		{ cat "$ca"; echo; } >>"$own/ca.crt"
		export GIT_SSL_CAINFO="$own/ca.crt"
	fi
done
umask 022

/git-sync "$@"
# Of a termination message only the last 4096 bytes are kept, so author and subject are cut. git itself does not cut
# what has control characters in it.
text=$(git -C /workspace/source log -1 --no-show-signature --format='%H%n%aI%n%an%n%s')
printf '%s\n' "$text" | cut -b 1-800 >/dev/termination-log
# A link that leads out of the repository would have the builder's own files copied.
root=$(readlink -f /workspace/source)
directory=$(readlink -f "/workspace/source/$CONTEXT_DIR") || true
case $directory/ in
"$root"/*) ;;
*) directory= ;;
esac
if [ ! -d "$directory" ]; then
	refuse "the repository has no directory \"$CONTEXT_DIR\""
fi
