# cmake --install BUILD --prefix P: the program, its manual page, its shell completions and the
# documents.

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
# The documents keep their paths, so that the links between them work.
foreach(document IN ITEMS README.md CHANGELOG.md CONTRIBUTING.md LICENSE Dockerfile
		bench/MEASURED.md engine/README.md reports/README.md
		reports/pictures/calibration.png reports/pictures/example.png
		reports/pictures/kernels.png sim/profiles/README.md tests/README.md
		workloads/README.md workloads/traces/README.md)
	get_filename_component(folder ${document} DIRECTORY)
	install(FILES ${PROJECT_SOURCE_DIR}/${document}
		DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
