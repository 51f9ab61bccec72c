# cmake --install BUILD --prefix P: the program, its manual page and its shell completions.

include(GNUInstallDirs)

# quire_install_output(FILE FOLDER ARGUMENT...): `quire help ARGUMENT...` prints FOLDER/FILE.
function(quire_install_output file folder)
	set(output ${PROJECT_BINARY_DIR}/generated/${file})
	list(JOIN ARGN " " arguments)
	install(CODE "execute_process(COMMAND \"$<TARGET_FILE:quire>\" help ${arguments}
		OUTPUT_FILE \"${output}\" COMMAND_ERROR_IS_FATAL ANY)")
	install(FILES ${output} DESTINATION ${folder})
endfunction()

install(TARGETS quire RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
quire_install_output(quire.1 ${CMAKE_INSTALL_MANDIR}/man1 --man)
quire_install_output(quire ${CMAKE_INSTALL_DATADIR}/bash-completion/completions --completion bash)
quire_install_output(_quire ${CMAKE_INSTALL_DATADIR}/zsh/site-functions --completion zsh)
quire_install_output(quire.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
	--completion fish)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE
	DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
